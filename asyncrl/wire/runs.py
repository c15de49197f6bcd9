"""Run specs as messages, and what tells runs apart."""

from __future__ import annotations

from typing import Any

from asyncrl.data import EnvSpec, PolicySpec, RunSpec, SpaceSpec
from asyncrl.wire.codec import Kind, canonical, pack
from asyncrl.wire.fields import Fields, decode
from asyncrl.wire.limits import DEFAULT_LIMITS, WireLimits
from asyncrl.wire.nouns import fingerprint


def run_fingerprint(spec: RunSpec) -> str:
    """Return what tells runs apart that must not be mixed: environment, policies, agents.

    Seed and number of environments are left out: they may change when a run is resumed. Neither the
    order of mappings matters, nor whether `spec` was made here or decoded.

    Raises:
        WireError: The keyword arguments hold what cannot travel.
    """
    plain = _run(spec)
    del plain["seed"], plain["env"]["num_envs"]
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
        "low": _bound(space.low),
        "high": _bound(space.high),
    }


def _bound(bound: float | tuple[float, ...]) -> float | list[float]:
    """Return floats, so that -1 and -1.0 are the same bound."""
    return [float(each) for each in bound] if isinstance(bound, tuple) else float(bound)


def _read_space(fields: Fields) -> SpaceSpec:
    return SpaceSpec(
        kind=fields.literal("kind", ("box", "discrete")),
        shape=fields.sizes("shape"),
        dtype=fields.text("dtype"),
        low=fields.bound("low"),
        high=fields.bound("high"),
        n=fields.integer("n"),
        start=fields.integer("start"),
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
        },
        "policies": {
            name: {
                "observation": _space(policy.observation),
                "action": _space(policy.action),
                "head": policy.head,
                "hidden": list(policy.hidden),
                "activation": policy.activation,
            }
            for name, policy in spec.policies.items()
        },
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
        ),
        policies={name: _read_policy(policies.child(name)) for name in policies.raw},
    )


def _read_policy(fields: Fields) -> PolicySpec:
    return PolicySpec(
        observation=_read_space(fields.child("observation")),
        action=_read_space(fields.child("action")),
        head=fields.literal("head", ("categorical", "gaussian", "q_values")),
        hidden=fields.sizes("hidden"),
        activation=fields.literal("activation", ("tanh", "relu")),
    )
