"""What happens in a run, as events, and the sinks that show or keep them."""

from asyncrl.metrics.console import ConsoleSink
from asyncrl.metrics.events import (
    ActorChange,
    ActorChanged,
    Checkpointed,
    Evaluation,
    Event,
    JobFailed,
    JobReassigned,
    Level,
    Message,
    Progress,
)
from asyncrl.metrics.files import CsvSink, JsonlSink
from asyncrl.metrics.logs import configure_logging
from asyncrl.metrics.running import RateMeter, ReturnWindow, eta
from asyncrl.metrics.sinks import Fanout, GuardedSink, Sink
from asyncrl.metrics.tensorboard_sink import TensorBoardSink

__all__ = [
    "ActorChange",
    "ActorChanged",
    "Checkpointed",
    "ConsoleSink",
    "CsvSink",
    "Evaluation",
    "Event",
    "Fanout",
    "GuardedSink",
    "JobFailed",
    "JobReassigned",
    "JsonlSink",
    "Level",
    "Message",
    "Progress",
    "RateMeter",
    "ReturnWindow",
    "Sink",
    "TensorBoardSink",
    "configure_logging",
    "eta",
]
