"""Making environments from their name: a Gymnasium id, or the import path of a factory."""

from __future__ import annotations

import copy
import difflib
import inspect
import logging
import sys
import warnings
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Any, cast

import gymnasium
from gymnasium.envs.registration import EnvSpec as GymnasiumSpec
from gymnasium.vector import VectorEnv

from asyncrl.data import ANYTHING, Allowed, EnvSpec, load_object
from asyncrl.envs.closing import close_within
from asyncrl.envs.failing import environment_failure
from asyncrl.errors import ConfigError, NotAllowed

_log = logging.getLogger(__name__)

AnyEnv = gymnasium.Env[Any, Any] | VectorEnv[Any, Any, Any]
Maker = Callable[[int], AnyEnv]
"""Makes one environment, or a vectorised one of as many as the argument says."""


def make_env(spec: EnvSpec, allowed: Allowed = ANYTHING) -> gymnasium.Env[Any, Any]:
    """Make one plain environment.

    Args:
        spec: `spec.env` is a Gymnasium id (``"CartPole-v1"``; without a version the newest is
            taken), an id that a module registers when imported (``"package.module:Name-v0"``), or
            the import path of a class or function (``"package.module:attr"``), called with
            `spec.kwargs`.
        allowed: What import paths may lead to.

    Raises:
        ConfigError: Nothing of that name is known (near matches are shown), or it makes something
            else than a `gymnasium.Env`.
        NotAllowed: It names code that is not `allowed`.
        EnvironmentFailure: Importing the module or making the environment raised.
    """
    made = resolve(spec, allowed)(1)
    if isinstance(made, VectorEnv):
        close_within({spec.env: made.close}, 5.0)
        raise ConfigError(
            "env",
            spec.env,
            "it makes a vectorised environment where a single one is needed",
            "name a factory that returns a gymnasium.Env",
        )
    return made


def resolve(spec: EnvSpec, allowed: Allowed = ANYTHING) -> Maker:
    """Find what `spec` names and return how to make it; for the errors see `make_env`.

    A factory with a parameter `num_envs` is told how many environments are wanted, unless
    `spec.kwargs` says so.
    """
    allowed.check(spec)
    module, separator, name = spec.env.partition(":")
    if not separator:
        return _registered(spec, spec.env)
    with _importing(module):
        try:
            factory = load_object(spec.env, "env", allowed)
        except NotAllowed:
            raise
        except ConfigError:
            if module in sys.modules and name:
                return _registered(spec, name)
            raise
    if not callable(factory):
        raise ConfigError(
            "env",
            spec.env,
            f"it is a {type(factory).__name__}, which cannot be called",
            "name a class or a function that returns a gymnasium.Env",
        )
    takes_num_envs = _takes_num_envs(factory)

    def make(num_envs: int) -> AnyEnv:
        kwargs = _kwargs(spec)
        if takes_num_envs:
            kwargs.setdefault("num_envs", num_envs)
        return _checked(spec.env, lambda: factory(**kwargs))

    return make


def _registered(spec: EnvSpec, name: str) -> Maker:
    """Return how to make the environment registered with Gymnasium as `name`."""
    registered = _find_registered(name)
    if registered is None:
        raise _unknown(spec.env, name)
    if registered.entry_point is None:
        return lambda num_envs: _checked(
            spec.env,
            lambda: gymnasium.make_vec(registered, num_envs=num_envs, **_kwargs(spec)),
        )
    # Gymnasium's own checker costs time and only warns; the edge checks what matters.
    options = {"disable_env_checker": True}
    return lambda _: _checked(
        spec.env, lambda: gymnasium.make(registered, **(options | _kwargs(spec)))
    )


def _find_registered(name: str) -> GymnasiumSpec | None:
    """Return the registered environment of this id, the newest version where it names none."""
    registry = cast("Mapping[str, GymnasiumSpec]", gymnasium.registry)
    if name in registry:
        return registry[name]
    versions = [
        known
        for known in registry.values()
        if known.version is not None and known.id.rpartition("-v")[0] == name
    ]
    if not versions:
        return None
    newest = max(versions, key=lambda known: known.version or 0)
    _log.warning("environment %r names no version; using %r", name, newest.id)
    return newest


def _unknown(given: str, name: str) -> ConfigError:
    module, separator, _ = given.partition(":")
    known: list[str] = list(gymnasium.registry)
    if separator:
        here = [n for n in vars(sys.modules[module]) if not n.startswith("_")]
        problem = (
            f"module {module!r} has no attribute {name!r} and registers no environment of that name"
        )
        return ConfigError("env", given, problem, _suggestion(name, [*here, *known], f"{module}:"))
    fix = _suggestion(name, known, "") + (
        "; an environment of your own is named by import path, package.module:attr, or as "
        "package.module:Name-v0 if that module registers it"
    )
    return ConfigError("env", given, "no environment of this id is registered with Gymnasium", fix)


def _suggestion(name: str, known: list[str], prefix: str) -> str:
    by_folded = {candidate.lower(): candidate for candidate in known}
    near = difflib.get_close_matches(name.lower(), by_folded, n=3, cutoff=0.5)
    if not near:
        return "check the spelling"
    return "did you mean " + " or ".join(prefix + by_folded[match] for match in near) + "?"


def _checked(name: str, make: Callable[[], Any]) -> AnyEnv:
    """Call `make`, translating what it raises, and check what it returns."""
    try:
        with _warnings_stay_warnings():
            made = make()
    except (Exception, SystemExit) as error:  # SystemExit would vanish in a worker thread
        raise environment_failure(f"making environment {name!r}", error) from error
    if not isinstance(made, gymnasium.Env | VectorEnv):
        raise ConfigError(
            "env",
            name,
            f"it made a {type(made).__module__}.{type(made).__name__}",
            "return a gymnasium.Env (not one of the old gym package) or a gymnasium VectorEnv",
        )
    return cast("AnyEnv", made)


@contextmanager
def _importing(module: str) -> Generator[None]:
    try:
        with _warnings_stay_warnings():
            yield
    except ConfigError:
        raise
    except (Exception, SystemExit) as error:
        raise environment_failure(f"importing {module!r}", error) from error


@contextmanager
def _warnings_stay_warnings() -> Generator[None]:
    """Keep Gymnasium's advice (bounds, metadata) from becoming errors under ``-W error``."""
    with warnings.catch_warnings():
        warnings.filterwarnings("default", module=r"gymnasium\.")
        yield


def _takes_num_envs(factory: Callable[..., object]) -> bool:
    try:
        return "num_envs" in inspect.signature(factory).parameters
    except (TypeError, ValueError):  # some callables of C extensions tell no signature
        return False


def _kwargs(spec: EnvSpec) -> dict[str, Any]:
    """Return a copy of the keyword arguments, so that no two environments share a list."""
    return copy.deepcopy(dict(spec.kwargs))
