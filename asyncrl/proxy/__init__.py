"""Collecting for a learner: the contract, rounds of jobs, and the coordinator of remote actors."""

from asyncrl.proxy.actor_proxy import ActorProxy
from asyncrl.proxy.collector import (
    Capacity,
    Collection,
    CollectionStatus,
    Collector,
    Delivery,
    LostJob,
)
from asyncrl.proxy.config import ProxyConfig
from asyncrl.proxy.rounds import SUPERSEDED, Round, Rounds, UpdateTrigger
from asyncrl.proxy.scenario import (
    AgentSpaces,
    agent_spaces,
    allow_flags,
    env_spec,
    import_path,
)

__all__ = [
    "SUPERSEDED",
    "ActorProxy",
    "AgentSpaces",
    "Capacity",
    "Collection",
    "CollectionStatus",
    "Collector",
    "Delivery",
    "LostJob",
    "ProxyConfig",
    "Round",
    "Rounds",
    "UpdateTrigger",
    "agent_spaces",
    "allow_flags",
    "env_spec",
    "import_path",
]
