"""Every Redis key, consumer group and stream field name of a run, in one place.

All keys of a run share one hash tag, `asyncrl:{run}:...`, so that they live in one slot of a
cluster and every script may touch any of them.

| key              | type   | holds                                                             |
|------------------|--------|-------------------------------------------------------------------|
| meta             | hash   | incarnation, protocol, spec, generation, owner, limit:<name>, ... |
| jobs:train, :eval| stream | jobs to do; group `actors`; the entry id is the attempt's token   |
| live             | hash   | job id -> "kind|token|generation" of every unfinished job         |
| done             | hash   | job id -> "A|token|result", "C|token|" or "D|token|": closed jobs |
| done:order       | zset   | job ids of `done` by when they closed, to forget the oldest       |
| cancelled        | hash   | token -> job id of cancelled jobs that an actor was working on    |
| results          | stream | accepted results, oldest first: the training's write-ahead log    |
| sizes            | hash   | result entry id -> "bytes|blob key" of every waiting result       |
| blob:<token>     | string | a large payload; expires unless its result is accepted            |
| dead             | stream | the last jobs that used up their attempts, and bad results        |
| actors           | hash   | actor id -> "server ms<space>JSON" of its last beat               |
| weights          | hash   | pointer to the newest weights, and which older ones are kept      |
| w:<g>:<v>:<part> | string | the bytes of one weight set                                       |
| ledger           | hash   | counters of what became of jobs and results                       |
| events           | stream | the last failure reports, arrivals and departures                 |

No key of a running run but a blob or an old weight set expires. A finished run's all do, together.

A stream entry's fields have one letter: j job id, k kind, n attempt, g generation, p payload,
r reasons, a actor id, e env steps, s payload bytes, b blob key, f failure report, t event kind.
"""

from __future__ import annotations

from dataclasses import dataclass

from asyncrl.data import JobKind, check_name

GROUP = "actors"
"""Consumer group on the job streams; a consumer is an actor id."""

START = "0-0"
"""The stream id before all others."""


@dataclass(frozen=True)
class Keys:
    """The key names of one run. Raises `ConfigError` for a name that does not fit into a key."""

    run: str

    def __post_init__(self) -> None:
        check_name("run", self.run)

    @property
    def prefix(self) -> str:
        """Return what every key of the run starts with."""
        return f"asyncrl:{{{self.run}}}:"

    def _key(self, name: str) -> str:
        return self.prefix + name

    @property
    def meta(self) -> str:
        """Return the key of the run's description."""
        return self._key("meta")

    @property
    def live(self) -> str:
        """Return the key of the unfinished jobs."""
        return self._key("live")

    @property
    def results(self) -> str:
        """Return the key of the result stream."""
        return self._key("results")

    @property
    def sizes(self) -> str:
        """Return the key of the waiting results' sizes."""
        return self._key("sizes")

    @property
    def dead(self) -> str:
        """Return the key of the dead jobs."""
        return self._key("dead")

    @property
    def actors(self) -> str:
        """Return the key of the actors' last beats."""
        return self._key("actors")

    @property
    def weights(self) -> str:
        """Return the key of the weights' pointer."""
        return self._key("weights")

    @property
    def events(self) -> str:
        """Return the key of the events."""
        return self._key("events")

    def jobs(self, kind: JobKind) -> str:
        """Return the stream of jobs of `kind`."""
        return self._key(f"jobs:{kind.value}")

    def blob(self, token: str) -> str:
        """Return the key of the payload of the attempt `token`."""
        return self._key(f"blob:{token}")

    def weight_part(self, generation: int, version: int, part: int) -> str:
        """Return the key of one part of a weight set."""
        return self._key(f"w:{generation}:{version}:{part}")

    def fixed(self) -> tuple[str, ...]:
        """Return the keys every script declares, in the order in which `names.lua` unpacks them."""
        return (
            self.meta,
            self.jobs(JobKind.TRAIN),
            self.jobs(JobKind.EVAL),
            self.live,
            self._key("done"),
            self._key("done:order"),
            self._key("cancelled"),
            self.results,
            self.sizes,
            self.dead,
            self.actors,
            self.weights,
            self._key("ledger"),
            self.events,
        )
