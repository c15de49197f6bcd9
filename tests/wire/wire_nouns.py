"""Nouns of every shape for the tests of the wire, and what equal means."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, cast

import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import numpy as np

from asyncrl.data import (
    EnvSpec,
    EpisodeStats,
    FailureReport,
    HeadKind,
    JobKind,
    JobUnit,
    PolicySpec,
    PolicyWeights,
    RolloutJob,
    RolloutResult,
    RunSpec,
    SpaceSpec,
    TrajectoryBatch,
    WeightSet,
    composite,
)
from asyncrl.wire import (
    decode_failure,
    decode_job,
    decode_result,
    decode_run,
    decode_tree,
    decode_weights,
    encode_failure,
    encode_job,
    encode_result,
    encode_run,
    encode_tree,
    encode_weights,
)
from asyncrl.wire.codec import Kind

DTYPES = (
    *("bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
)

# -- equality ------------------------------------------------------------------------------------


def same(left: Any, right: Any) -> bool:
    """Whether two values say the same, bit for bit; a tuple is a list, whatever the layout."""
    if isinstance(left, np.ndarray):
        return isinstance(right, np.ndarray) and _same_arrays(left, right)
    if dataclasses.is_dataclass(left):
        names = [each.name for each in dataclasses.fields(left)]
        return type(left) is type(right) and all(
            same(getattr(left, name), getattr(right, name)) for name in names
        )
    if isinstance(left, Mapping):
        first, second = cast("Mapping[str, Any]", left), cast("Mapping[str, Any]", right)
        return first.keys() == second.keys() and all(same(first[k], second[k]) for k in first)
    if isinstance(left, list | tuple):
        items, others = cast("Sequence[Any]", left), cast("Sequence[Any]", right)
        return len(items) == len(others) and all(map(same, items, others))
    return type(left) is type(right) and repr(left) == repr(right)


def _same_arrays(left: np.ndarray, right: np.ndarray) -> bool:
    native = left.dtype.newbyteorder("=")
    return (
        right.dtype == native
        and left.shape == right.shape
        and left.astype(native).tobytes() == right.tobytes()
    )


def in_order(name: str, big: bool) -> np.dtype[Any]:
    """Return the dtype of that name, big- or little-endian."""
    return np.dtype(name).newbyteorder(">" if big else "<")


# -- strategies ----------------------------------------------------------------------------------


@st.composite
def arrays(draw: st.DrawFn) -> np.ndarray:
    """Arrays of every dtype and byte order; whole, sliced, turned round, transposed, 0-d, empty."""
    dtype = in_order(draw(st.sampled_from(DTYPES)), draw(st.booleans()))
    shape = draw(hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4))
    array = draw(hnp.arrays(dtype, shape, fill=st.nothing()))
    layouts = [array, array.T, np.broadcast_to(array, (2, *shape))]
    if array.ndim:
        layouts += [array[::-1], array[::2]]
    return draw(st.sampled_from(layouts))


def mappings(values: st.SearchStrategy[Any], size: int = 3) -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(st.text(max_size=8), values, max_size=size)


NAMES = st.from_regex(r"[A-Za-z0-9._-]{1,64}", fullmatch=True)
INT64 = st.integers(-(2**63), 2**63 - 1)
FLOATS = st.floats(allow_nan=True)
TEXTS = st.text(max_size=20)
SCALARS = (
    st.none() | st.booleans() | st.integers() | FLOATS | TEXTS | st.binary(max_size=20) | arrays()
)
TREES = mappings(
    st.recursive(SCALARS, lambda inside: st.lists(inside, max_size=3) | mappings(inside))
)
JOBS = st.builds(
    RolloutJob,
    job_id=NAMES,
    kind=st.sampled_from(JobKind),
    unit=st.sampled_from(JobUnit),
    size=st.integers(1, 2**63 - 1),
    round=INT64,
    generation=INT64,
    attempt=st.integers(1, 2**31),
    min_version=INT64,
    exploration=mappings(mappings(FLOATS)),
)
BATCHES = st.builds(
    TrajectoryBatch,
    policy_id=TEXTS,
    policy_version=INT64,
    agent_id=TEXTS,
    extras=mappings(arrays()),
    **dict.fromkeys(
        ("obs", "action", "reward", "terminated", "truncated", "last_obs", "final_obs"), arrays()
    ),
    final_index=arrays(),
    initial_state=arrays(),
)
RESULTS = st.builds(
    RolloutResult,
    job=JOBS,
    actor_id=TEXTS,
    env_steps=INT64,
    batches=st.lists(BATCHES, max_size=2).map(tuple),
    episodes=st.builds(
        EpisodeStats,
        returns=hnp.arrays(np.float64, st.integers(0, 4)),
        lengths=hnp.arrays(np.int64, st.integers(0, 4)),
    ),
    metrics=mappings(FLOATS),
    counters=mappings(INT64),
    weights_version=INT64,
    seconds=FLOATS,
)
WEIGHTS = st.builds(
    WeightSet,
    generation=INT64,
    version=INT64,
    policies=mappings(st.builds(PolicyWeights, version=INT64, params=mappings(arrays()))),
)
FAILURES = st.builds(
    FailureReport,
    actor_id=TEXTS,
    job_id=TEXTS,
    attempt=INT64,
    where=TEXTS,
    cause=TEXTS,
    traceback=TEXTS,
    seed=st.none() | INT64,
)


@st.composite
def boxes(draw: st.DrawFn) -> SpaceSpec:
    shape = draw(hnp.array_shapes(min_dims=0, max_dims=3, max_side=3))
    size = int(np.prod(shape))
    numbers = st.floats(allow_nan=False)
    ends = [sorted((draw(numbers), draw(numbers))) for _ in range(size)]
    one = draw(st.booleans())
    low: float | tuple[float, ...] = ends[0][0] if one else tuple(a for a, _ in ends)
    high: float | tuple[float, ...] = ends[0][1] if one else tuple(b for _, b in ends)
    dtype = draw(st.sampled_from(("float32", "float64", "uint8", "int64", "bool")))
    return SpaceSpec(kind="box", shape=shape, dtype=dtype, low=low, high=high)


DISCRETE = st.builds(
    SpaceSpec,
    kind=st.just("discrete"),
    dtype=st.just("int64"),
    n=st.integers(1, 2**40),
    start=INT64,
)


@st.composite
def multi_discretes(draw: st.DrawFn) -> SpaceSpec:
    nvec = draw(st.lists(st.integers(1, 9), min_size=1, max_size=4))
    starts = draw(st.just([]) | st.lists(INT64, min_size=len(nvec), max_size=len(nvec)))
    return SpaceSpec(
        kind="multi_discrete",
        shape=(len(nvec),),
        dtype="int64",
        nvec=tuple(nvec),
        starts=tuple(starts),
    )


MULTI_BINARY = st.builds(
    SpaceSpec,
    kind=st.just("multi_binary"),
    shape=hnp.array_shapes(min_dims=1, max_dims=2, max_side=4),
    dtype=st.just("int8"),
)
LEAVES = boxes() | DISCRETE | multi_discretes() | MULTI_BINARY
PART_NAMES = st.text(st.characters(exclude_characters="/", codec="utf-8"), min_size=1, max_size=5)


def composites(parts: st.SearchStrategy[SpaceSpec]) -> st.SearchStrategy[SpaceSpec]:
    return st.dictionaries(PART_NAMES, parts, min_size=1, max_size=3).map(
        lambda named: composite("dict", named)
    ) | st.lists(parts, min_size=1, max_size=3).map(
        lambda listed: composite("tuple", {str(i): part for i, part in enumerate(listed)})
    )


SPACES = st.recursive(LEAVES, composites, max_leaves=5)
BOUNDED = SpaceSpec(kind="box", shape=(2,), low=-1.0, high=(1.0, 2.0))
ACTIONS: tuple[tuple[st.SearchStrategy[SpaceSpec], tuple[HeadKind, ...]], ...] = (
    (DISCRETE, ("categorical", "q_values", "value")),
    (multi_discretes(), ("multi_categorical",)),
    (MULTI_BINARY, ("bernoulli",)),
    (boxes(), ("gaussian",)),
    (st.just(BOUNDED), ("squashed_gaussian", "deterministic")),
    (composites(LEAVES), ("composite",)),
)


@st.composite
def policies(draw: st.DrawFn) -> PolicySpec:
    actions, heads = draw(st.sampled_from(ACTIONS))
    module = draw(st.booleans())
    shapes = st.lists(st.integers(0, 2**31 - 1), max_size=3).map(tuple)
    return PolicySpec(
        observation=draw(SPACES),
        action=draw(actions),
        head=draw(st.sampled_from(heads)),
        hidden=tuple(draw(st.lists(st.integers(1, 512), max_size=3))),
        activation=draw(st.sampled_from(("tanh", "relu"))),
        std=draw(st.sampled_from(("free", "state"))),
        dueling=draw(st.sampled_from(("none", "mean", "max"))),
        atoms=draw(st.integers(1, 51)),
        support=draw(st.sampled_from((None, (-1.0, 2.5)))),
        core=draw(st.sampled_from(("none", "lstm", "gru"))),
        core_size=draw(st.integers(1, 256)),
        normalize=draw(st.booleans()),
        noise=draw(st.sampled_from(("none", "gaussian", "uniform", "ou"))),
        module="nets:make" if module else None,
        module_kwargs=draw(TREES) if module else {},
        module_features=draw(st.integers(1, 64)) if module else 0,
        module_params=tuple(draw(st.lists(st.tuples(TEXTS, shapes), max_size=2))) if module else (),
    )


ENVS = st.builds(
    EnvSpec,
    env=st.text(min_size=1, max_size=20),
    kwargs=TREES,
    num_envs=st.integers(1, 4096),
    trajectory=st.none() | TEXTS,
    trajectory_kwargs=TREES,
    batch_limit=st.integers(0, 2**31),
    batch_delay=st.floats(0.0, 10.0),
    step_timeout=st.none() | st.floats(0.001, 10.0),
)


@st.composite
def runs(draw: st.DrawFn) -> RunSpec:
    named = draw(st.dictionaries(NAMES, policies(), min_size=1, max_size=2))
    agents = draw(mappings(st.sampled_from(sorted(named))))
    frozen = draw(st.lists(st.sampled_from(sorted(named)), unique=True))
    return RunSpec(
        env=draw(ENVS), policies=named, agents=agents, seed=draw(INT64), frozen=tuple(frozen)
    )


# -- one codec a kind ----------------------------------------------------------------------------


class Codec(NamedTuple):
    """How nouns of a kind are made, encoded and decoded."""

    kind: Kind
    nouns: st.SearchStrategy[Any]
    encode: Callable[[Any], bytes]
    decode: Callable[[bytes], Any]
    noun: type[Any]


CODECS = {
    codec.kind.name.lower(): codec
    for codec in (
        Codec(Kind.JOB, JOBS, encode_job, decode_job, RolloutJob),
        Codec(Kind.RESULT, RESULTS, encode_result, decode_result, RolloutResult),
        Codec(Kind.WEIGHTS, WEIGHTS, encode_weights, decode_weights, WeightSet),
        Codec(Kind.RUN, runs(), encode_run, decode_run, RunSpec),
        Codec(Kind.FAILURE, FAILURES, encode_failure, decode_failure, FailureReport),
        Codec(Kind.TREE, TREES, encode_tree, decode_tree, dict),
    )
}


# -- examples ------------------------------------------------------------------------------------

JOB = RolloutJob(
    job_id="1.7",
    kind=JobKind.TRAIN,
    unit=JobUnit.STEPS,
    size=3,
    round=4,
    generation=1,
    exploration={"policy": {"epsilon": 0.5}},
)
_ENDED = np.array([[False, False], [False, True], [False, False]])
BATCH = TrajectoryBatch(
    policy_id="policy",
    policy_version=6,
    obs=np.arange(12, dtype=np.float32).reshape(3, 2, 2),
    action=np.array([[0, 1], [1, 0], [1, 1]]),
    reward=np.ones((3, 2), np.float32),
    terminated=_ENDED,
    truncated=np.zeros((3, 2), np.bool_),
    last_obs=np.zeros((2, 2), np.float32),
    final_obs=np.full((1, 2), 9, np.float32),
    final_index=np.array([[1, 1]], np.int32),
    extras={"log_prob": np.full((3, 2), -0.5, np.float32)},
    initial_state=np.full((2, 3), 0.25, np.float32),
)
RESULT = RolloutResult(
    job=JOB,
    actor_id="actor-1",
    env_steps=6,
    batches=(BATCH,),
    episodes=EpisodeStats(returns=np.array([2.0]), lengths=np.array([2])),
    metrics={"crashes": 0.5},
    counters={"step_timeouts": 2},
    weights_version=6,
    seconds=0.25,
)
RUN = RunSpec(
    env=EnvSpec(env="CartPole-v1", kwargs={"gravity": 9.8, "wind": {"x": 1, "y": 2}}),
    policies={
        "policy": PolicySpec(
            observation=SpaceSpec(kind="box", shape=(2,), low=-1.0, high=(1.0, 2.0)),
            action=SpaceSpec(kind="discrete", dtype="int64", n=2),
            head="categorical",
        )
    },
    seed=1,
)
EXAMPLES: dict[str, Any] = {
    "job": JOB,
    "result": RESULT,
    "weights": WeightSet(
        generation=1,
        version=6,
        policies={
            "policy": PolicyWeights(version=6, params={"0.bias": np.ones(3, np.float32)}),
        },
    ),
    "run": RUN,
    "failure": FailureReport(
        actor_id="actor-1", job_id="1.7", attempt=1, where="step 3", cause="boom", seed=5
    ),
    "tree": {"rng": {"state": 2**127}, "replay": [np.arange(5), b"bytes", None, True]},
}
