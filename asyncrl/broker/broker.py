"""The broker: one run on one server, as learners and actors see it."""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from importlib import metadata

from asyncrl.broker import scripts
from asyncrl.broker.client import Client
from asyncrl.broker.config import BrokerConfig
from asyncrl.broker.events import EventLog
from asyncrl.broker.jobs import JobQueue
from asyncrl.broker.keys import Keys
from asyncrl.broker.ledger import Ledger, read_ledger
from asyncrl.broker.limits import RunLimits, limits_from_fields, limits_to_fields
from asyncrl.broker.nouns import Backlog, RunInfo
from asyncrl.broker.presence import Presence
from asyncrl.broker.results import ResultStream
from asyncrl.broker.server_state import MemoryState, concerns_about, memory_of, refuse_eviction
from asyncrl.broker.session import Session, as_count, as_fields, as_number, as_text, as_version
from asyncrl.broker.urls import redact
from asyncrl.broker.weights import WeightStore
from asyncrl.data import RunSpec
from asyncrl.errors import RunMismatch, WireError
from asyncrl.wire import PROTOCOL_VERSION, decode_run, encode_run, run_fingerprint


class Broker:
    """One run's view of one server, in one event loop. Made by `connect`."""

    def __init__(self, url: str, run: str, config: BrokerConfig) -> None:
        keys = Keys(run)
        client = Client(url, f"asyncrl:{run}", config)
        self._session = Session(client, keys, config)
        self.url = redact(url)
        """Where the server is, without password."""
        self.run = run
        self.config = config
        self.jobs = JobQueue(self._session)
        self.results = ResultStream(self._session)
        self.weights = WeightStore(self._session)
        self.presence = Presence(self._session)
        self.events = EventLog(self._session)

    def __repr__(self) -> str:
        return f"Broker({self.url!r}, run={self.run!r})"

    @property
    def address(self) -> str:
        """``host:port`` of the server, or the path of its socket."""
        return self._session.client.address

    @property
    def generation(self) -> int:
        """Generation of the learner that created or took over the run here; 0 for an actor."""
        return self._session.generation

    @property
    def incarnation(self) -> str:
        """Which creation of the run this broker works for; "" before the first call."""
        return self._session.incarnation

    async def ping(self) -> None:
        """Reach the server once, within `connect_timeout`.

        Raises:
            BrokerUnavailable: Nothing answers; names host and port and what to try.
            BrokerRefused: Wrong password, or too few permissions.
        """
        await self._session.client.hello()

    async def create_run(
        self, spec: RunSpec, owner: str, limits: RunLimits | None = None
    ) -> RunInfo:
        """Create the run, or take it over as its next generation; from now on this is its learner.

        A takeover cancels every unfinished job of older generations in the same step and keeps the
        accepted results, which `results.read_pending` returns. `spec` replaces the stored one, from
        which only the seed and the number of environments may differ, and `limits` (the defaults
        where None) the stored ones, for every process of the run at once.

        Raises:
            BrokerRefused: The server may evict the run's keys, and `allow_eviction` is not set.
            ConfigError: `limits` and this process's `outage_timeout` do not go together.
            RunMismatch: The run on the server trains something else or speaks another protocol.
        """
        session, limits = self._session, limits or RunLimits()
        limits.check_outages(self.config.outage_timeout)
        if not self.config.allow_eviction:
            await refuse_eviction(session.client)
        encoded, call = encode_run(spec), uuid.uuid4().hex
        args = (
            *(uuid.uuid4().hex, run_fingerprint(spec), PROTOCOL_VERSION),
            *(metadata.version("asyncrl"), encoded, owner, call),
            *limits_to_fields(limits),
        )
        keys = (*session.keys.fixed(), *await self.weights.kept_parts())
        reply = await session.client.persist(
            lambda: session.client.script(scripts.CREATE_RUN, keys, args)
        )
        if as_text(reply[0]) == "MISMATCH":
            raise await self._mismatch(spec)
        session.incarnation = as_text(reply[1])
        session.generation = as_number(reply[2])
        self.results.start_after(as_text(reply[3]))
        return await self.read_run()

    async def read_run(self) -> RunInfo:
        """Return what the run is.

        Raises:
            RunNotFound: There is none.
            RunMismatch: It speaks another protocol version.
            RunStateLost: It is not the run this broker worked for before.
        """
        session = self._session
        await session.attach()
        meta = await self._meta()
        if session.incarnation != as_text(meta.get("incarnation", b"")):
            await session.call(scripts.CHECK)  # raises, saying what happened
        protocol = as_count(meta, "protocol")
        if protocol != PROTOCOL_VERSION:
            raise self._other_protocol(meta)
        return RunInfo(
            incarnation=as_text(meta["incarnation"]),
            protocol=protocol,
            library=as_text(meta.get("library", b"")),
            spec=decode_run(meta.get("spec", b"")),
            generation=as_count(meta, "generation"),
            owner=as_text(meta.get("owner", b"")),
            weights=as_version(meta["weights:generation"], meta["weights:version"]),
            limits=limits_from_fields(meta),
            state="finished" if meta.get("state") == b"finished" else "running",
        )

    async def finish_run(self, generation: int) -> bool:
        """Mark the run finished: every actor is told to drain at its next beat. Raises `Fenced`.

        Returns:
            Whether the run expires from now on, after `RunLimits.finished_ttl` seconds. Not while
            a job is out or a result is not acked: deal with these and call again.
        """
        reply = await self._session.call(
            scripts.FINISH_RUN, keys=await self.weights.kept_parts(), generation=generation
        )
        return bool(reply[1])

    async def ledger(self) -> Ledger:
        """Return what became of every job and result, read in one step."""
        return await read_ledger(self._session)

    async def backlog(self) -> Backlog:
        """Return how many jobs and results wait on the server, read in one step."""
        _, queued, results, nbytes = await self._session.call(scripts.COUNTS)
        return Backlog(queued=int(queued), results=int(results), nbytes=int(nbytes))

    async def concerns(self) -> list[str]:
        """Return what is worth a warning about the server, as sentences; often nothing."""
        return await concerns_about(self._session.client)

    async def memory(self) -> MemoryState | None:
        """Return how full the server is; None where it does not tell this user."""
        return await memory_of(self._session.client)

    def connections(self) -> int:
        """Return the number of connections this broker has open."""
        return self._session.client.connections()

    async def aclose(self) -> None:
        """Close all connections."""
        await self._session.client.aclose()

    async def _meta(self) -> dict[str, bytes]:
        session = self._session
        flat, generation, version = await session.client.persist(
            lambda: session.client.script(scripts.READ_RUN, session.keys.fixed(), ())
        )
        weights = {"weights:generation": generation, "weights:version": version}
        return as_fields(flat) | weights

    async def _mismatch(self, spec: RunSpec) -> RunMismatch:
        """Say how the run on the server differs from what was asked for."""
        meta = await self._meta()
        if as_count(meta, "protocol") != PROTOCOL_VERSION:
            return self._other_protocol(meta)
        try:
            theirs = decode_run(meta["spec"])
        except (WireError, KeyError):
            differences = "its description cannot be read"
        else:
            differences = "; ".join(
                f"{name}: there {getattr(theirs, name)}, here {getattr(spec, name)}"
                for name in ("env", "policies", "agents")
                if getattr(theirs, name) != getattr(spec, name)
            )
        return RunMismatch(
            f"run {self.run!r} on Redis at {self.address} trains something else ({differences}); "
            "use another run name, or delete its keys to start over"
        )

    def _other_protocol(self, meta: dict[str, bytes]) -> RunMismatch:
        protocol, library = (as_text(meta.get(name, b"?")) for name in ("protocol", "library"))
        return RunMismatch(
            f"run {self.run!r} on Redis at {self.address} speaks protocol {protocol} "
            f"(asyncrl {library}), this is protocol {PROTOCOL_VERSION} "
            f"(asyncrl {metadata.version('asyncrl')}); install the same version on both sides"
        )


@asynccontextmanager
async def connect(
    url: str, *, run: str, config: BrokerConfig | None = None
) -> AsyncGenerator[Broker]:
    """Connect to a server for the work on one run; closes every connection at the end.

    The first contact does not wait for a server that is not there.

    Args:
        url: ``redis://[user:password@]host:port/db``, ``rediss://...`` (TLS) or ``unix:///path``.
        run: Name of the run, 1 to 64 letters, digits, dots, dashes or underscores.
        config: Settings; the defaults where None.

    Raises:
        ConfigError: `url` or `run` is malformed.
        BrokerUnavailable: Nothing answers within `connect_timeout`.
        BrokerRefused: Wrong password, or too few permissions.
    """
    broker = Broker(url, run, config or BrokerConfig())
    try:
        await broker.ping()
        yield broker
    finally:
        await broker.aclose()
