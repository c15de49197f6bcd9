"""Any order of calls, lost replies and zombies: the server agrees with a model after every step."""

from __future__ import annotations

from broker_model import CONFIG, KINDS, LIMITS, NAMES, Job, Model
from broker_world import BOTH, TRAIN, lose_next_reply, make_job, make_report, make_spec
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule, run_state_machine_as_test

from asyncrl.broker import Beat, Completed, ReassignStatus, Submitted, TakenJob, scripts
from asyncrl.data import JobKind
from asyncrl.errors import Fenced

ACTOR = st.sampled_from(["a", "b", "c"])
LOST = st.sampled_from([False, False, True])
"""Whether the reply of the call's first script is lost."""


class Protocol(Model):
    """What a learner (and its heirs) and three actors do, against a real server."""

    # -- the learner's calls --------------------------------------------------------------------

    @rule(name=st.sampled_from(NAMES), lost=LOST)
    def submit(self, name: str, lost: bool) -> None:
        if name in self.jobs:
            open_job = self.jobs[name].state in {"queued", "running"}
            expected = Submitted.LIVE if open_job else Submitted.DONE
        elif len(self.live()) >= LIMITS.max_jobs:
            expected = Submitted.FULL
        else:
            expected = Submitted.LIVE if lost else Submitted.OK
            self.jobs[name] = Job(name)
            self.enqueue(self.jobs[name])
            self.counts.issued += 1
        if lost:
            lose_next_reply(self.learner)
        job = make_job(name, KINDS[name], self.learner.generation)
        assert self.do(self.learner.jobs.submit(job)) is expected

    @rule(names=st.sets(st.sampled_from(NAMES), max_size=3), lost=LOST)
    def cancel(self, names: set[str], lost: bool) -> None:
        for name in names:
            if name in self.jobs and self.jobs[name].state in {"queued", "running"}:
                self.jobs[name].state = "cancelled"
        expected = {n for n in names if n in self.jobs and self.jobs[n].state == "cancelled"}
        if lost and names:
            lose_next_reply(self.learner)
        assert set(self.do(self.learner.jobs.cancel(names))) == expected

    @precondition(lambda self: self.old)
    @rule(data=st.data(), counts=st.booleans(), lost=LOST)
    def reassign(self, data: st.DataObject, counts: bool, lost: bool) -> None:
        actor, taken = self.pick(data)
        job = self.owner(actor, taken)
        expected = ReassignStatus.GONE
        if job and counts:
            expected = self.attempt_failed(job)
        elif job:
            self.enqueue(job)
            expected = ReassignStatus.REASSIGNED
        self.counts.reassigned += expected is ReassignStatus.REASSIGNED
        if lost:
            lose_next_reply(self.learner)
            expected = ReassignStatus.GONE
        call = self.learner.jobs.reassign(taken.token, taken.job.kind, "dead", counts=counts)
        assert self.do(call).status is expected

    @precondition(lambda self: self.results)
    @rule(count=st.integers(1, 3), drop=st.booleans(), lost=LOST)
    def ack(self, count: int, drop: bool, lost: bool) -> None:
        entries = self.do(self.learner.results.read_pending("0-0")) + self.do(
            self.learner.results.read(block=False, count=100)
        )
        assert [(entry.job_id, entry.nbytes) for entry in entries] == self.results
        assert all(len(entry.payload or b"") == entry.nbytes for entry in entries)
        ids = [entry.entry_id for entry in entries[:count]]
        trained, dropped = ([], dict.fromkeys(ids, "why")) if drop else (ids, {})
        if lost:
            lose_next_reply(self.learner)
        self.do(self.learner.results.ack(trained, dropped, self.learner.generation))
        self.counts.trained += len(trained)
        self.counts.dropped += len(dropped)
        del self.results[:count]

    @rule(lost=LOST)
    def takeover(self, lost: bool) -> None:
        before = self.learner
        heir = self.do(self._open())
        if lost:
            lose_next_reply(heir)
        self.do(heir.create_run(make_spec(), "heir", LIMITS))
        assert heir.generation == before.generation + 1
        for job in self.live():
            job.state = "cancelled"
        self.learner = heir
        self.fenced.append(before)

    @precondition(lambda self: self.fenced and self.old)
    @rule(data=st.data())
    def fenced_learner_acts(self, data: st.DataObject) -> None:
        learner = self.fenced[-1]
        _, taken = self.pick(data)
        for call in (
            learner.jobs.cancel(NAMES),
            learner.jobs.reassign(taken.token, taken.job.kind, "dead"),
            learner.results.ack(["1-1"], {}, learner.generation),
            learner.weights.publish(10**6, b"w", learner.generation),
        ):
            try:
                self.do(call)
            except Fenced:
                continue
            raise AssertionError("a fenced learner was not refused")

    # -- the actors' calls ----------------------------------------------------------------------

    @rule(actor=ACTOR, kinds=st.sampled_from([BOTH, TRAIN]), count=st.integers(1, 3), lost=LOST)
    def take(self, actor: str, kinds: tuple[JobKind, ...], count: int, lost: bool) -> None:
        asked = [kind for kind in (JobKind.EVAL, JobKind.TRAIN) if kind in kinds]
        expected = [job for kind in asked for job in self.waiting(kind)][:count]
        if lost:
            lose_next_reply(self.actor)
        taken = self.do(self.actor.jobs.take(actor, kinds, count, block=False))
        assert [(t.job.job_id, t.job.attempt) for t in taken] == [
            (job.name, job.attempt) for job in expected
        ]
        for job, one in zip(expected, taken, strict=True):
            job.state, job.holder, job.taken = "running", actor, one
            self.old.append((actor, one))

    @precondition(lambda self: self.old)
    @rule(data=st.data())
    def begin(self, data: st.DataObject) -> None:
        actor, taken = self.pick(data)
        expected = self.owner(actor, taken) is not None
        assert self.do(self.actor.jobs.begin(actor, taken)).ok is expected

    @precondition(lambda self: self.old)
    @rule(data=st.data(), size=st.sampled_from([0, 99, 100, 600]), lost=LOST)
    def complete(self, data: st.DataObject, size: int, lost: bool) -> None:
        actor, taken = self.pick(data)
        self.hand_in(actor, taken, size, lost)

    @precondition(lambda self: any(j.state == "running" for j in self.jobs.values()))
    @rule(data=st.data(), size=st.sampled_from([1, 300]))
    def complete_in_time(self, data: st.DataObject, size: int) -> None:
        running = [job for job in self.jobs.values() if job.state == "running"]
        job = data.draw(st.sampled_from(running))
        assert job.taken is not None
        self.hand_in(job.holder, job.taken, size, lost=False)

    def hand_in(self, actor: str, taken: TakenJob, size: int, lost: bool) -> None:
        job = self.owner(actor, taken)
        times = 2 if lost else 1
        held = sum(nbytes for _, nbytes in self.results)
        if job is None and taken.token in self.accepted:
            expected = Completed.DUP
            self.counts.duplicate += times
        elif job is None:
            expected = Completed.STALE
            self.counts.stale += times
        elif len(self.results) >= LIMITS.max_results or (
            held and held + size > LIMITS.max_result_bytes
        ):
            expected = Completed.FULL
        else:
            expected = Completed.DUP if lost else Completed.OK
            self.counts.duplicate += times - 1
            job.state = "accepted"
            self.accepted.append(taken.token)
            self.results.append((job.name, size))
            self.counts.steps[taken.job.kind] += 5
        if lost and (size < CONFIG.blob_threshold or expected is not Completed.FULL):
            lose_next_reply(self.actor, scripts.COMPLETE)
        assert self.do(self.actor.jobs.complete(actor, taken, b"x" * size, 5)) is expected

    @precondition(lambda self: self.old)
    @rule(data=st.data(), lost=LOST)
    def fail(self, data: st.DataObject, lost: bool) -> None:
        actor, taken = self.pick(data)
        job = self.owner(actor, taken)
        expected = ReassignStatus.GONE
        if job:
            expected = self.attempt_failed(job)
            self.counts.failed += 1
        if lost:
            lose_next_reply(self.actor)
            expected = ReassignStatus.GONE
        report = make_report(actor, taken.job.job_id, taken.job.attempt)
        assert self.do(self.actor.jobs.fail(actor, taken, report)).status is expected

    @precondition(lambda self: self.old)
    @rule(data=st.data(), lost=LOST)
    def release(self, data: st.DataObject, lost: bool) -> None:
        actor, taken = self.pick(data)
        job = self.owner(actor, taken)
        if job:
            self.enqueue(job)
        if lost:
            lose_next_reply(self.actor)
        released = self.do(self.actor.jobs.release(actor, taken))
        assert released is (job is not None and not lost)

    @precondition(lambda self: self.old)
    @rule(actor=ACTOR, lost=LOST)
    def beat(self, actor: str, lost: bool) -> None:
        """Everybody claims every attempt there ever was; nothing changes hands."""
        mine = {t.token for who, t in self.old if who == actor and self.owner(who, t)}
        every = {taken.token: taken.job.job_id for _, taken in self.old}
        if lost:
            lose_next_reply(self.actor)
        beat = Beat(actor_id=actor, sequence=1, held=dict.fromkeys(every, 0))
        reply = self.do(self.actor.presence.beat(beat))
        assert reply.lost == set(every) - mine
        assert reply.generation == self.learner.generation
        assert all(self.jobs[job].state == "cancelled" for job in reply.cancelled)

    @rule(actor=ACTOR, lost=LOST)
    def leave(self, actor: str, lost: bool) -> None:
        held = [job for job in self.jobs.values() if job.state == "running" and job.holder == actor]
        by_token = sorted(held, key=lambda job: _order(job.taken))
        for kind in (JobKind.TRAIN, JobKind.EVAL):
            for job in by_token:
                if KINDS[job.name] is kind:
                    self.enqueue(job)
        if lost:
            lose_next_reply(self.actor)
        assert self.do(self.actor.presence.leave(actor)) == (0 if lost else len(held))

    @rule(actor=ACTOR)
    def retire(self, actor: str) -> None:
        busy = any(j.state == "running" and j.holder == actor for j in self.jobs.values())
        assert self.do(self.learner.presence.retire(actor)) is not busy


def _order(taken: TakenJob | None) -> tuple[int, ...]:
    assert taken is not None
    return tuple(int(part) for part in taken.token.split("-"))


def test_every_order_of_calls_agrees_with_the_model(redis_url: str, run_name: str) -> None:
    Model.url, Model.prefix = redis_url, run_name
    run_state_machine_as_test(
        Protocol,
        settings=settings(
            max_examples=40,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow],
        ),
    )
