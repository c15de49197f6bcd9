"""From an import path to what it names, as far as that is allowed.

A program's own user may name anything. A run that an actor reads from a server was written by
whoever can write there, so that the actor imports and calls only what it was started for.
"""

from __future__ import annotations

import functools
import importlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, cast

from asyncrl.data.spec import EnvSpec
from asyncrl.errors import ConfigError, NotAllowed

_MODULE = re.compile(r"[^\s:,.]+(\.[^\s:,.]+)*")
_COMPATIBILITY = re.compile(r"(.*:)?GymV\d+Environment(-v\d+)?")
"""The ids under which Gymnasium wraps environments of the old Gym package. Their keyword argument
`env_id` is an id of that package, and imports a module as ``module:Name-v0`` does."""


@dataclass(frozen=True)
class Allowed:
    """What an import path may lead to.

    It may begin with an allowed module or one below it: ``house`` allows ``house`` and
    ``house.envs``, not ``houses``. What its attributes reach has to be defined in allowed modules
    as well, or else ``house:os.system`` would do for any house that imports os.
    """

    modules: Sequence[str] | None = None
    """Dotted names of modules or packages; None allows everything."""

    def __post_init__(self) -> None:
        if isinstance(self.modules, str):
            raise ConfigError(
                "allow", self.modules, "one text, not several", f"write ({self.modules!r},)"
            )
        for module in self.modules or ():
            if not _MODULE.fullmatch(module):
                raise ConfigError(
                    "allow",
                    module,
                    "not the name of a module",
                    "give a module or package, such as house or house.envs",
                )

    def check(self, spec: EnvSpec) -> None:
        """Raise `NotAllowed` where `spec` names a module that is not allowed; import nothing."""
        for field, path in _named(spec).items():
            self.check_path(path, field)

    def check_path(self, path: str, field: str) -> None:
        """Raise `NotAllowed` where `path` begins with a module that is not allowed."""
        module, separator, _ = path.partition(":")
        if separator and not self._covers(module):
            raise NotAllowed(
                field,
                path,
                f"this actor was not started for module {module!r}",
                f"start the actor with --allow {module} if you trust this run with that module",
                module=module,
            )

    def check_reached(self, found: object, path: str, field: str) -> None:
        """Raise `NotAllowed` where `found`, reached along `path`, is defined elsewhere."""
        if self.modules is None:
            return
        home = _home(found)
        if home is None:
            raise NotAllowed(
                field,
                path,
                f"it leads to a {type(found).__name__}, of which no module says that it defines it",
                "name a class or a function that an allowed module defines",
                module=None,
            )
        if not self._covers(home):
            raise NotAllowed(
                field,
                path,
                f"it leads to module {home!r}, which this actor was not started for",
                f"start the actor with --allow {home} as well if you trust this run with that "
                "module",
                module=home,
            )

    def _covers(self, module: str) -> bool:
        if self.modules is None:
            return True
        return any(module == each or module.startswith(each + ".") for each in self.modules)


ANYTHING = Allowed()
"""For paths that come from this program's own user."""


def load_object(path: str, what: str, allowed: Allowed = ANYTHING) -> Any:
    """Import ``"package.module:attr"``; raise `ConfigError` naming what cannot be found.

    Raises `NotAllowed` where the path is not `allowed`, before importing its module.
    """
    module_name, _, attr = path.partition(":")
    if not module_name or not attr:
        raise ConfigError(what, path, "not an import path", "write it as package.module:attr")
    if module_name.startswith("."):
        raise ConfigError(what, path, "a relative import path", "begin with the package's name")
    allowed.check_path(path, what)
    found: Any = _import(module_name, path, what)
    for part in attr.split("."):
        if not hasattr(found, part):
            raise ConfigError(
                what, path, f"{module_name} has no attribute {attr!r}", "check the spelling"
            )
        found = getattr(found, part)
        allowed.check_reached(found, path, what)
    return found


def named_modules(spec: EnvSpec) -> tuple[str, ...]:
    """Return the modules that `spec` names, without importing any."""
    paths = [path for path in _named(spec).values() if ":" in path]
    return tuple(dict.fromkeys(path.partition(":")[0] for path in paths))


def modules_needed(spec: EnvSpec) -> tuple[str, ...]:
    """Return what has to be allowed for `spec`, importing what it names.

    Beside the modules it names these are the ones that define what it reaches through them, for
    example what a package re-exports from another one. For a `spec` of this program's own user.
    """
    modules = list(named_modules(spec))
    for field, path in _named(spec).items():
        modules += _reached(path, field, modules)
    return tuple(dict.fromkeys(modules))


def _reached(path: str, field: str, modules: Sequence[str]) -> list[str]:
    """Return what must be allowed beside `modules` for `path`."""
    more: list[str] = []
    while ":" in path:
        try:
            load_object(path, field, Allowed([*modules, *more]))
        except NotAllowed as refused:
            if refused.module is None:
                break  # the actor will say so
            more.append(refused.module)
        except ConfigError:  # an id that the module registers, and no attribute of it
            break
        else:
            break
    return more


def _named(spec: EnvSpec) -> dict[str, str]:
    """Return field -> what it names, for all of `spec` that may be an import path."""
    named = {"env": spec.env}
    if spec.trajectory is not None:
        named["trajectory"] = spec.trajectory
    inner = spec.kwargs.get("env_id")
    if _COMPATIBILITY.fullmatch(spec.env) and isinstance(inner, str):
        named["env_id"] = inner
    return named


def _home(found: object) -> str | None:
    """Return the module that defines `found`, or None where it does not say."""
    while isinstance(found, functools.partial):  # which is of the module functools, and harmless
        found = cast("functools.partial[Any]", found).func
    if isinstance(found, ModuleType):
        return found.__name__
    home: object = getattr(found, "__module__", None)
    return home if isinstance(home, str) else None


def _import(module_name: str, path: str, what: str) -> ModuleType:
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and not (
            module_name == error.name or module_name.startswith(error.name + ".")
        ):
            raise
        raise ConfigError(
            what,
            path,
            f"there is no module {error.name!r}",
            "check the spelling and PYTHONPATH on this machine",
        ) from error
