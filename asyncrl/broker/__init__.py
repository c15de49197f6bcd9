"""Bytes to and from Redis: jobs, results, weights, presence, and the ledger that proves them."""

from asyncrl.broker.broker import Broker, connect
from asyncrl.broker.config import BrokerConfig
from asyncrl.broker.events import EventLog
from asyncrl.broker.jobs import JobQueue
from asyncrl.broker.ledger import Ledger
from asyncrl.broker.limits import RunLimits
from asyncrl.broker.nouns import (
    ActorPresence,
    Backlog,
    Beat,
    BeatReply,
    Begun,
    Completed,
    DeadJob,
    Event,
    PendingJob,
    Published,
    Reassigned,
    ReassignStatus,
    Rejected,
    ResultEntry,
    RollCall,
    RunInfo,
    Submitted,
    TakenJob,
    Version,
)
from asyncrl.broker.presence import Presence
from asyncrl.broker.results import ResultStream
from asyncrl.broker.server_state import MemoryState
from asyncrl.broker.urls import redact
from asyncrl.broker.weights import WeightStore

__all__ = [
    "ActorPresence",
    "Backlog",
    "Beat",
    "BeatReply",
    "Begun",
    "Broker",
    "BrokerConfig",
    "Completed",
    "DeadJob",
    "Event",
    "EventLog",
    "JobQueue",
    "Ledger",
    "MemoryState",
    "PendingJob",
    "Presence",
    "Published",
    "ReassignStatus",
    "Reassigned",
    "Rejected",
    "ResultEntry",
    "ResultStream",
    "RollCall",
    "RunInfo",
    "RunLimits",
    "Submitted",
    "TakenJob",
    "Version",
    "WeightStore",
    "connect",
    "redact",
]
