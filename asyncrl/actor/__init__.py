"""Collecting: rollouts in environments, locally or as a worker of a run."""

from asyncrl.actor.config import WorkerConfig
from asyncrl.actor.local import Actor
from asyncrl.actor.trajectory import AgentStep, StepEvent, Trajectory
from asyncrl.actor.worker import ActorWorker

__all__ = ["Actor", "ActorWorker", "AgentStep", "StepEvent", "Trajectory", "WorkerConfig"]
