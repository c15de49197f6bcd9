"""asyncrl: asyncio-native distributed reinforcement learning over Redis streams.

Importing this package imports nothing else: each public name is loaded when it is first used, so
that an actor never pays for torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asyncrl.actor import Actor, ActorWorker, AgentStep, StepEvent, Trajectory
    from asyncrl.algorithms import DQN, PPO
    from asyncrl.broker import Broker, BrokerConfig, RunLimits, connect
    from asyncrl.broker.embedded import EmbeddedServer
    from asyncrl.data import (
        EnvSpec,
        PolicySpec,
        RolloutJob,
        RolloutResult,
        RunSpec,
        SpaceSpec,
        TrajectoryBatch,
    )
    from asyncrl.envs import space_spec
    from asyncrl.errors import (
        ActorCrashLoop,
        AsyncRLError,
        BrokerError,
        BrokerRefused,
        BrokerUnavailable,
        CheckpointError,
        ConfigError,
        DataError,
        EmbeddedServerError,
        EnvironmentFailure,
        Fenced,
        InvalidBatchError,
        MissingExtraError,
        NoRoom,
        NotAllowed,
        RolloutFailed,
        RunMismatch,
        RunNotFound,
        RunStateLost,
        StateError,
        WaitTimeout,
        WireError,
    )
    from asyncrl.learner import (
        OffPolicyConfig,
        OffPolicyLearner,
        OnPolicyConfig,
        OnPolicyLearner,
        RunResult,
    )
    from asyncrl.metrics import Progress
    from asyncrl.proxy import ActorProxy, ProxyConfig

_NAMES_OF = {
    "asyncrl.actor": "Actor ActorWorker AgentStep StepEvent Trajectory",
    "asyncrl.algorithms": "DQN PPO",
    "asyncrl.broker": "Broker BrokerConfig RunLimits connect",
    "asyncrl.broker.embedded": "EmbeddedServer",
    "asyncrl.data": "EnvSpec PolicySpec RolloutJob RolloutResult RunSpec SpaceSpec TrajectoryBatch",
    "asyncrl.envs": "space_spec",
    "asyncrl.errors": (
        "ActorCrashLoop AsyncRLError BrokerError BrokerRefused BrokerUnavailable CheckpointError "
        "ConfigError DataError EmbeddedServerError EnvironmentFailure Fenced InvalidBatchError "
        "MissingExtraError NoRoom NotAllowed RolloutFailed RunMismatch RunNotFound RunStateLost "
        "StateError WaitTimeout WireError"
    ),
    "asyncrl.learner": "OffPolicyConfig OffPolicyLearner OnPolicyConfig OnPolicyLearner RunResult",
    "asyncrl.metrics": "Progress",
    "asyncrl.proxy": "ActorProxy ProxyConfig",
}
_MODULE_OF = {name: module for module, names in _NAMES_OF.items() for name in names.split()}

__all__ = [
    "DQN",
    "PPO",
    "Actor",
    "ActorCrashLoop",
    "ActorProxy",
    "ActorWorker",
    "AgentStep",
    "AsyncRLError",
    "Broker",
    "BrokerConfig",
    "BrokerError",
    "BrokerRefused",
    "BrokerUnavailable",
    "CheckpointError",
    "ConfigError",
    "DataError",
    "EmbeddedServer",
    "EmbeddedServerError",
    "EnvSpec",
    "EnvironmentFailure",
    "Fenced",
    "InvalidBatchError",
    "MissingExtraError",
    "NoRoom",
    "NotAllowed",
    "OffPolicyConfig",
    "OffPolicyLearner",
    "OnPolicyConfig",
    "OnPolicyLearner",
    "PolicySpec",
    "Progress",
    "ProxyConfig",
    "RolloutFailed",
    "RolloutJob",
    "RolloutResult",
    "RunLimits",
    "RunMismatch",
    "RunNotFound",
    "RunResult",
    "RunSpec",
    "RunStateLost",
    "SpaceSpec",
    "StateError",
    "StepEvent",
    "Trajectory",
    "TrajectoryBatch",
    "WaitTimeout",
    "WireError",
    "connect",
    "space_spec",
]


def __getattr__(name: str) -> object:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module 'asyncrl' has no attribute {name!r}")
    try:
        value: object = getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        from asyncrl.errors import MissingExtraError

        raise MissingExtraError("torch", "learner", f"asyncrl.{name}") from error
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
