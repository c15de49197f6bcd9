"""A model of the job protocol in plain Python, compared with the real server after every step."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

from broker_world import connect, make_spec
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant

from asyncrl.broker import Broker, BrokerConfig, ReassignStatus, RunLimits, TakenJob
from asyncrl.data import JobKind

T = TypeVar("T")

CONFIG = BrokerConfig(blob_threshold=100, retry_min=0.001, retry_max=0.001)
LIMITS = RunLimits(max_jobs=5, max_results=4, max_result_bytes=1000, max_attempts=3)
NAMES = [f"j{n}" for n in range(12)]
KINDS = {name: JobKind.EVAL if n % 4 == 0 else JobKind.TRAIN for n, name in enumerate(NAMES)}


@dataclass
class Job:
    """What the model knows of a job."""

    name: str
    state: str = "queued"
    attempt: int = 1
    queued_at: int = 0
    holder: str = ""
    taken: TakenJob | None = None
    """The attempt its holder works on."""


@dataclass
class Counts:
    """The model's ledger."""

    issued: int = 0
    stale: int = 0
    duplicate: int = 0
    reassigned: int = 0
    failed: int = 0
    trained: int = 0
    dropped: int = 0
    steps: dict[JobKind, int] = field(default_factory=lambda: dict.fromkeys(JobKind, 0))


class Model(RuleBasedStateMachine):
    """One learner (and its heirs) and several actors; the rules are its subclass's."""

    url = ""
    prefix = ""
    """Run names start with it; each example has one of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.run_name = f"{Model.prefix}-{secrets.token_hex(4)}"
        self.jobs: dict[str, Job] = {}
        self.counts = Counts()
        self.old: list[tuple[str, TakenJob]] = []
        """Attempts that were ever delivered, whatever became of them."""
        self.accepted: list[str] = []
        """Tokens of the accepted attempts."""
        self.results: list[tuple[str, int]] = []
        """Job and size of every result that is not acked, oldest first."""
        self.clock = 0
        self.fenced: list[Broker] = []

    # -- plumbing -------------------------------------------------------------------------------

    def do(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(coroutine)

    async def _open(self) -> Broker:
        context = connect(Model.url, run=self.run_name, config=CONFIG)
        broker = await context.__aenter__()
        self.contexts.append(context)
        return broker

    @initialize()
    def start(self) -> None:
        self.contexts: list[Any] = []
        self.learner = self.do(self._open())
        self.actor = self.do(self._open())
        self.do(self.learner.create_run(make_spec(), "learner", LIMITS))

    def teardown(self) -> None:
        async def close() -> None:
            for context in self.contexts:
                await context.__aexit__(None, None, None)

        self.do(close())
        self.runner.close()

    # -- the model ------------------------------------------------------------------------------

    def live(self) -> list[Job]:
        return [job for job in self.jobs.values() if job.state in {"queued", "running"}]

    def waiting(self, kind: JobKind) -> list[Job]:
        queued = [j for j in self.jobs.values() if j.state == "queued" and KINDS[j.name] is kind]
        return sorted(queued, key=lambda job: job.queued_at)

    def enqueue(self, job: Job) -> None:
        self.clock += 1
        job.state, job.queued_at, job.holder, job.taken = "queued", self.clock, "", None

    def owner(self, actor: str, taken: TakenJob) -> Job | None:
        """Return the job if `taken` is still the actor's to do."""
        job = self.jobs[taken.job.job_id]
        mine = job.state == "running" and job.holder == actor and job.taken == taken
        return job if mine else None

    def attempt_failed(self, job: Job) -> ReassignStatus:
        if job.attempt >= LIMITS.max_attempts:
            job.state = "dead"
            return ReassignStatus.DEAD
        job.attempt += 1
        self.enqueue(job)
        return ReassignStatus.REASSIGNED

    def pick(self, data: st.DataObject) -> tuple[str, TakenJob]:
        return data.draw(st.sampled_from(self.old))

    # -- what must hold at every instant --------------------------------------------------------

    @invariant()
    def the_server_agrees(self) -> None:
        if not hasattr(self, "learner"):
            return
        ledger = self.do(self.learner.ledger())
        assert ledger.balanced, ledger.explain()
        states = [job.state for job in self.jobs.values()]
        assert ledger.issued == self.counts.issued
        assert ledger.accepted == states.count("accepted") == len(self.accepted)
        assert ledger.cancelled == states.count("cancelled")
        assert ledger.dead == states.count("dead")
        assert ledger.in_flight == len(self.live())
        assert (ledger.stale, ledger.duplicate) == (self.counts.stale, self.counts.duplicate)
        assert (ledger.reassigned, ledger.failed) == (self.counts.reassigned, self.counts.failed)
        assert ledger.trained == self.counts.trained
        assert sum(ledger.dropped.values()) == self.counts.dropped
        assert ledger.waiting == len(self.results)
        assert ledger.waiting_bytes == sum(nbytes for _, nbytes in self.results)
        assert ledger.env_steps_accepted == self.counts.steps[JobKind.TRAIN]
        assert ledger.eval_steps_accepted == self.counts.steps[JobKind.EVAL]

    @invariant()
    def every_job_is_where_it_belongs(self) -> None:
        if not hasattr(self, "learner"):
            return
        assert self.do(self.learner.jobs.live()) == {job.name for job in self.live()}
        assert self.do(self.learner.jobs.queued()) == len(
            [job for job in self.jobs.values() if job.state == "queued"]
        )
        pending = self.do(self.learner.jobs.pending())
        assert {(p.job_id, p.token, p.actor_id, p.attempt) for p in pending} == {
            (job.name, job.taken.token, job.holder, job.attempt)
            for job in self.jobs.values()
            if job.state == "running" and job.taken
        }
        assert all(1 <= job.attempt <= LIMITS.max_attempts for job in self.jobs.values())
