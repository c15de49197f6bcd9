from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from wire_nouns import RUN, runs

from asyncrl.data import RunSpec, composite
from asyncrl.errors import WireError
from asyncrl.wire import decode_run, encode_run, fingerprint, run_fingerprint

POLICY = RUN.policies["policy"]
QUICK = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def with_env(**changes: Any) -> RunSpec:
    return replace(RUN, env=replace(RUN.env, **changes))


def with_policy(**changes: Any) -> RunSpec:
    return replace(RUN, policies={"policy": replace(POLICY, **changes)})


def with_observation(**changes: Any) -> RunSpec:
    return with_policy(observation=replace(POLICY.observation, **changes))


def backwards(value: Any) -> Any:
    """Return mappings in the opposite order, at any depth."""
    if isinstance(value, dict):
        items: list[tuple[str, Any]] = list(value.items())
        return {key: backwards(inner) for key, inner in reversed(items)}
    return [backwards(each) for each in value] if isinstance(value, list | tuple) else value


def test_a_fingerprint_is_sha256():
    assert fingerprint(b"") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def test_the_fingerprint_of_a_run_stays_what_it_was():
    """Checkpoints hold it: a new library that computes another could resume none of them."""
    assert run_fingerprint(RUN)[:16] == "71afcf0927441cd2"


@pytest.mark.parametrize(
    "spec",
    [
        replace(RUN, seed=99),
        replace(RUN, frozen=("policy",)),
        *(
            with_env(**{name: value})
            for name, value in {
                "num_envs": 64,
                "batch_limit": 7,
                "batch_delay": 0.5,
                "step_timeout": 3.0,
            }.items()
        ),
    ],
)
def test_seed_frozen_policies_and_the_way_of_stepping_may_change(spec: RunSpec):
    assert run_fingerprint(spec) == run_fingerprint(RUN)


CHANGES: dict[str, RunSpec] = {
    "environment": with_env(env="CartPole-v0"),
    "an argument": with_env(kwargs={"gravity": 9.9, "wind": {"x": 1, "y": 2}}),
    "an argument's type": with_env(kwargs={"gravity": 9.8, "wind": {"x": 1.0, "y": 2}}),
    "a nested argument": with_env(kwargs={"gravity": 9.8, "wind": {"x": 1, "y": 3}}),
    "an argument's name": with_env(kwargs={"gravitas": 9.8, "wind": {"x": 1, "y": 2}}),
    "one argument less": with_env(kwargs={"gravity": 9.8}),
    "pairs instead of a mapping": with_env(kwargs={"gravity": 9.8, "wind": [["x", 1], ["y", 2]]}),
    "an array": with_env(kwargs={"gravity": np.arange(3)}),
    "another array": with_env(kwargs={"gravity": np.arange(1, 4)}),
    "trajectory": with_env(trajectory="module:Scenario"),
    "trajectory arguments": with_env(trajectory_kwargs={"a": 1}),
    "agents": replace(RUN, agents={"other": "policy"}),
    "policy id": replace(RUN, policies={"other": POLICY}, agents={"agent": "other"}),
    "one policy more": replace(RUN, policies={"policy": POLICY, "other": POLICY}),
    "hidden layers": with_policy(hidden=(64, 32)),
    "activation": with_policy(activation="relu"),
    "head": with_policy(head="q_values"),
    "actions": with_policy(action=replace(POLICY.action, n=3)),
    "first action": with_policy(action=replace(POLICY.action, start=1)),
    "observation shape": with_observation(shape=(1, 2)),
    "deviations of the state": with_policy(std="state"),
    "dueling": with_policy(dueling="mean"),
    "atoms": with_policy(atoms=51),
    "support": with_policy(support=(-1.0, 1.0)),
    "core": with_policy(core="lstm"),
    "core size": with_policy(core_size=64),
    "normalisation": with_policy(normalize=True),
    "noise": with_policy(noise="ou"),
    "module": with_policy(module="nets:make", module_features=4),
    "module arguments": with_policy(
        module="nets:make", module_features=4, module_kwargs={"depth": 2}
    ),
    "module parameters": with_policy(
        module="nets:make", module_features=4, module_params=(("weight", (2, 4)),)
    ),
    "observation kind": with_policy(observation=composite("dict", {"a": POLICY.observation})),
    "a part's name": with_policy(observation=composite("dict", {"b": POLICY.observation})),
    "a tuple": with_policy(observation=composite("tuple", {"0": POLICY.observation})),
    "observation dtype": with_observation(dtype="uint8"),
    "lower bound": with_observation(low=-2.0),
    "upper bounds": with_observation(high=(1.0, 3.0)),
}


def test_everything_else_makes_another_run():
    found = {name: run_fingerprint(spec) for name, spec in CHANGES.items()}
    assert run_fingerprint(RUN) not in found.values()
    assert len(set(found.values())) == len(found)


@given(spec=runs())
@QUICK
def test_neither_order_nor_the_way_over_the_wire_matters(spec: RunSpec):
    turned = replace(
        spec,
        env=replace(
            spec.env,
            kwargs=backwards(spec.env.kwargs),
            trajectory_kwargs=backwards(spec.env.trajectory_kwargs),
        ),
        policies=dict(reversed(list(spec.policies.items()))),
        agents=dict(reversed(list(spec.agents.items()))),
    )
    assert run_fingerprint(turned) == run_fingerprint(spec)
    assert run_fingerprint(decode_run(encode_run(turned))) == run_fingerprint(spec)


def test_a_whole_number_is_as_good_a_bound_as_a_float():
    whole = with_observation(low=-1, high=(1, 2))
    assert run_fingerprint(whole) == run_fingerprint(RUN)
    assert decode_run(encode_run(whole)) == decode_run(encode_run(RUN))


@pytest.mark.parametrize("kwargs", [{"a": {1: 2}}, {"a": {1, 2}}, {"a": object()}, {1: "a"}])
def test_arguments_that_cannot_travel_are_refused(kwargs: dict[Any, Any]):
    spec = with_env(kwargs=kwargs)
    with pytest.raises(WireError, match=r"not text|neither a plain value nor an array"):
        run_fingerprint(spec)
    with pytest.raises(WireError, match="this run cannot travel"):
        encode_run(spec)
