"""Settings of the connection to Redis and of the job protocol."""

from __future__ import annotations

from dataclasses import dataclass

from asyncrl.errors import ConfigError

_KIB = 1024
_MIB = 1024 * _KIB


@dataclass(frozen=True, kw_only=True)
class BrokerConfig:
    """How long to wait, how much to keep, and when to push back."""

    block_seconds: float = 2.0
    """Longest single wait on the server for jobs or results; also how soon a stop is noticed."""
    command_timeout: float = 5.0
    """Seconds a command may take before its connection counts as broken."""
    connect_timeout: float = 5.0
    """Seconds until a connection attempt is given up."""
    outage_timeout: float = 60.0
    """Seconds an operation keeps trying while Redis cannot be reached, loads its data or is full,
    before it raises. The first connection does not wait: it fails at once."""
    retry_min: float = 0.05
    """Shortest upper bound of the random delay between two tries, in seconds; it doubles each
    time."""
    retry_max: float = 2.0
    """Longest upper bound of that delay, in seconds."""
    connections: int = 4
    """Most connections for commands; each waiting reader (jobs, results) has one more of its
    own."""
    max_jobs: int = 10_000
    """Most jobs queued or running; a submit beyond it is answered FULL."""
    max_results: int = 4096
    """Most results waiting for the learner; a complete beyond it is answered FULL."""
    max_result_bytes: int = 1024 * _MIB
    """Most bytes of results waiting for the learner. One larger result is accepted when none
    waits."""
    blob_threshold: int = 256 * _KIB
    """Bytes from which a result travels in a key of its own instead of inside the stream, which is
    2 to 5 times cheaper for the server."""
    blob_ttl: float = 600.0
    """Seconds an uploaded payload is kept while its result is not accepted."""
    max_attempts: int = 3
    """Attempts at a job before it is dead."""
    keep_versions: int = 3
    """Weight sets kept, the newest included."""
    weights_ttl: float = 120.0
    """Seconds a weight set lives on after it fell out of `keep_versions`, for actors amid fetching
    it."""
    weights_part: int = 16 * _MIB
    """Bytes of weights in one key; larger ones are split, so that no single command blocks the
    server long."""
    weights_timeout: float = 10.0
    """Seconds to wait for weights that were announced but cannot be read yet."""
    done_keep: int = 20_000
    """Closed jobs remembered, so that a repeated complete or submit of one is recognised."""
    dead_keep: int = 1000
    """Dead jobs and bad results kept for inspection (about)."""
    events_keep: int = 1000
    """Events kept (about)."""

    def __post_init__(self) -> None:
        positive = (
            "block_seconds command_timeout connect_timeout retry_min retry_max connections "
            "max_jobs max_results max_result_bytes blob_threshold blob_ttl max_attempts "
            "keep_versions weights_ttl weights_part weights_timeout dead_keep events_keep"
        )
        for name in positive.split():
            if getattr(self, name) <= 0:
                raise ConfigError(name, getattr(self, name), "must be positive", "give more than 0")
        if self.outage_timeout < 0:
            raise ConfigError(
                "outage_timeout", self.outage_timeout, "is negative", "give 0 to never try again"
            )
        if self.retry_min > self.retry_max:
            raise ConfigError(
                "retry_min",
                self.retry_min,
                f"is more than retry_max={self.retry_max}",
                "give a smaller one",
            )
        if self.done_keep < self.max_jobs:
            raise ConfigError(
                "done_keep",
                self.done_keep,
                f"a takeover closes up to max_jobs={self.max_jobs} jobs at once and remembers them",
                "give at least max_jobs",
            )
        if self.blob_ttl < 2 * self.outage_timeout:
            raise ConfigError(
                "blob_ttl",
                self.blob_ttl,
                f"a payload outlasts two outages of outage_timeout={self.outage_timeout}",
                f"give at least {2 * self.outage_timeout:g}",
            )

    @property
    def reader_timeout(self) -> float:
        """Socket time-out of a connection that waits on the server: always longer than the wait."""
        return self.block_seconds + self.command_timeout
