"""Run specs as messages, and what tells runs apart."""

from __future__ import annotations

from typing import Any, get_args

from asyncrl.data import (
    Activation,
    ConvKind,
    CoreKind,
    DuelingKind,
    EnvSpec,
    HeadKind,
    NoiseKind,
    PolicySpec,
    RunSpec,
    SpaceKind,
    SpaceSpec,
    StdKind,
)
from asyncrl.wire.codec import Kind, canonical, pack
from asyncrl.wire.fields import Fields, decode
from asyncrl.wire.limits import DEFAULT_LIMITS, WireLimits
from asyncrl.wire.nouns import fingerprint


def run_fingerprint(spec: RunSpec) -> str:
    """Return what tells runs apart that must not be mixed: environment, policies, agents.

    Seed, frozen policies and how environments are stepped (how many at once, batching, time-outs)
    are left out: they may change when a run is resumed. Neither the order of mappings matters, nor
    whether `spec` was made here or decoded.

    Raises:
        WireError: The keyword arguments hold what cannot travel.
    """
    plain = _run(spec)
    del plain["seed"], plain["frozen"]
    for name in ("num_envs", "batch_limit", "batch_delay", "step_timeout"):
        del plain["env"][name]
    return fingerprint(canonical(plain))


def encode_run(spec: RunSpec) -> bytes:
    """Return `spec` as bytes; `WireError` for keyword arguments that cannot travel."""
    return pack(Kind.RUN, _run(spec))


def decode_run(data: bytes, limits: WireLimits = DEFAULT_LIMITS) -> RunSpec:
    """Return the run spec in `data`; `WireError` unless it is one."""
    return decode(Kind.RUN, data, limits, _read_run)


def _space(space: SpaceSpec) -> dict[str, Any]:
    return {
        "kind": space.kind,
        "shape": list(space.shape),
        "dtype": space.dtype,
        "n": space.n,
        "start": space.start,
        "nvec": list(space.nvec),
        "starts": list(space.starts),
        "low": _bound(space.low),
        "high": _bound(space.high),
        "children": [{"name": name, "space": _space(child)} for name, child in space.children],
    }


def _bound(bound: float | tuple[float, ...]) -> float | list[float]:
    """Return floats, so that -1 and -1.0 are the same bound."""
    return [float(each) for each in bound] if isinstance(bound, tuple) else float(bound)


def _read_space(fields: Fields) -> SpaceSpec:
    return SpaceSpec(
        kind=fields.literal("kind", get_args(SpaceKind)),
        shape=fields.sizes("shape"),
        dtype=fields.text("dtype"),
        low=fields.bound("low"),
        high=fields.bound("high"),
        n=fields.integer("n"),
        start=fields.integer("start"),
        nvec=fields.whole_numbers("nvec"),
        starts=fields.whole_numbers("starts"),
        children=tuple(
            (child.text("name"), _read_space(child.child("space")))
            for child in fields.children("children")
        ),
    )


def _run(spec: RunSpec) -> dict[str, Any]:
    env = spec.env
    return {
        "seed": spec.seed,
        "agents": dict(spec.agents),
        "env": {
            "env": env.env,
            "kwargs": dict(env.kwargs),
            "num_envs": env.num_envs,
            "trajectory": env.trajectory,
            "trajectory_kwargs": dict(env.trajectory_kwargs),
            "batch_limit": env.batch_limit,
            "batch_delay": env.batch_delay,
            "step_timeout": env.step_timeout,
        },
        "frozen": list(spec.frozen),
        "policies": {name: _policy(policy) for name, policy in spec.policies.items()},
    }


def _read_run(fields: Fields) -> RunSpec:
    env, policies = fields.child("env"), fields.child("policies")
    return RunSpec(
        seed=fields.integer("seed"),
        agents=fields.child("agents").texts(),
        env=EnvSpec(
            env=env.text("env"),
            kwargs=env.child("kwargs").raw,
            num_envs=env.integer("num_envs"),
            trajectory=env.optional_text("trajectory"),
            trajectory_kwargs=env.child("trajectory_kwargs").raw,
            batch_limit=env.integer("batch_limit"),
            batch_delay=env.number("batch_delay"),
            step_timeout=env.optional_number("step_timeout"),
        ),
        policies={name: _read_policy(policies.child(name)) for name in policies.raw},
        frozen=fields.names("frozen"),
    )


def _policy(policy: PolicySpec) -> dict[str, Any]:
    return {
        "observation": _space(policy.observation),
        "action": _space(policy.action),
        "head": policy.head,
        "hidden": list(policy.hidden),
        "activation": policy.activation,
        "std": policy.std,
        "dueling": policy.dueling,
        "atoms": policy.atoms,
        "support": None if policy.support is None else [float(each) for each in policy.support],
        "conv": policy.conv,
        "core": policy.core,
        "core_size": policy.core_size,
        "normalize": policy.normalize,
        "noise": policy.noise,
        "module": policy.module,
        "module_kwargs": dict(policy.module_kwargs),
        "module_features": policy.module_features,
        "module_params": [
            {"name": name, "shape": list(shape)} for name, shape in policy.module_params
        ],
    }


def _read_policy(fields: Fields) -> PolicySpec:
    return PolicySpec(
        observation=_read_space(fields.child("observation")),
        action=_read_space(fields.child("action")),
        head=fields.literal("head", get_args(HeadKind)),
        hidden=fields.sizes("hidden"),
        activation=fields.literal("activation", get_args(Activation)),
        std=fields.literal("std", get_args(StdKind)),
        dueling=fields.literal("dueling", get_args(DuelingKind)),
        atoms=fields.integer("atoms"),
        support=fields.optional_interval("support"),
        conv=fields.literal("conv", get_args(ConvKind)),
        core=fields.literal("core", get_args(CoreKind)),
        core_size=fields.integer("core_size"),
        normalize=fields.flag("normalize"),
        noise=fields.literal("noise", get_args(NoiseKind)),
        module=fields.optional_text("module"),
        module_kwargs=fields.child("module_kwargs").raw,
        module_features=fields.integer("module_features"),
        module_params=tuple(
            (each.text("name"), each.sizes("shape")) for each in fields.children("module_params")
        ),
    )
