"""Settings of one process's connection to Redis."""

from __future__ import annotations

from dataclasses import dataclass

from asyncrl.errors import ConfigError

_KIB = 1024
_MIB = 1024 * _KIB


@dataclass(frozen=True, kw_only=True)
class BrokerConfig:
    """How long this process waits for the server, and how it splits what it sends."""

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
    blob_threshold: int = 256 * _KIB
    """Bytes from which a result travels in a key of its own instead of inside the stream, which is
    2 to 5 times cheaper for the server."""
    weights_part: int = 16 * _MIB
    """Bytes of weights in one key; larger ones are split, so that no single command blocks the
    server long."""
    weights_timeout: float = 10.0
    """Seconds to wait for weights that were announced but cannot be read yet."""
    allow_eviction: bool = False
    """Let a learner run on a server that may evict keys of its run (maxmemory-policy allkeys-*)."""

    def __post_init__(self) -> None:
        positive = (
            "block_seconds command_timeout connect_timeout retry_min retry_max connections "
            "blob_threshold weights_part weights_timeout"
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

    @property
    def reader_timeout(self) -> float:
        """Socket time-out of a connection that waits on the server: always longer than the wait."""
        return self.block_seconds + self.command_timeout
