"""What is left on the server: only the documented keys, bounded, and nothing once work is done."""

from __future__ import annotations

import re

from broker_world import BOTH, QUICK, TRAIN, connect, make_job, make_report, make_spec, raw

from asyncrl.broker import Beat, Broker, BrokerConfig, Completed, RunLimits
from asyncrl.broker import keys as keys_module
from asyncrl.data import JobKind

DOCUMENTED = {
    "meta", "jobs:train", "jobs:eval", "live", "done", "done:order", "cancelled", "results",
    "sizes", "dead", "actors", "weights", "ledger", "events",
}  # fmt: skip


async def names(url: str, run: str) -> set[str]:
    async with raw(url) as client:
        found = await client.keys(f"asyncrl:{{{run}}}:*")
    return {key.decode().split("}:")[1] for key in found}


async def test_after_everything_is_done_only_the_documented_keys_remain_and_are_empty(
    redis_url: str, run_name: str, learner: Broker, actor: Broker
) -> None:
    for n in range(20):
        await learner.jobs.submit(make_job(f"j{n}", BOTH[n % 2]))
    taken = await actor.jobs.take("a", BOTH, 18)
    await actor.presence.beat(Beat(actor_id="a", sequence=1, held={taken[0].token: 1}))
    for n, one in enumerate(taken[:9]):
        size = 500 if n % 2 else 5
        assert await actor.jobs.complete("a", one, b"x" * size, 1) is Completed.OK
    await learner.jobs.cancel([one.job.job_id for one in taken[9:12]])
    await actor.jobs.complete("a", taken[9], b"x" * 500, 1)
    for one in taken[12:14]:
        await learner.jobs.reassign(one.token, one.job.kind, "dead")
    await actor.jobs.fail("a", taken[14], make_report("a"))
    await actor.presence.leave("a")
    while again := await actor.jobs.take("b", BOTH, 5, block=False):
        for one in again:
            assert await actor.jobs.complete("b", one, b"x" * 300, 1) is Completed.OK
    await actor.presence.leave("b")
    entries = [entry.entry_id for entry in await learner.results.read(100)]
    await learner.results.ack(entries[:5], dict.fromkeys(entries[5:], "bad"), 1)

    ledger = await learner.ledger()
    assert (ledger.in_flight, ledger.waiting, ledger.waiting_bytes) == (0, 0, 0)
    assert ledger.balanced
    assert await names(redis_url, run_name) <= DOCUMENTED
    session = learner._session
    async with raw(redis_url) as client:
        for kind in JobKind:
            assert await client.xlen(session.keys.jobs(kind)) == 0
            assert (await client.xpending(session.keys.jobs(kind), "actors"))["pending"] == 0
            assert await client.xinfo_consumers(session.keys.jobs(kind), "actors") == []
        for empty in ("results", "sizes", "live", "actors"):
            key = f"asyncrl:{{{run_name}}}:{empty}"
            assert not await client.exists(key) or await client.xlen(key) == 0


def test_every_fixed_key_is_documented_and_in_one_slot() -> None:
    fixed = keys_module.Keys("run").fixed()
    assert len(set(fixed)) == 14
    assert {key.removeprefix("asyncrl:{run}:") for key in fixed} == DOCUMENTED
    tags = {match[1] for key in fixed if (match := re.search(r"\{(.*?)\}", key))}
    assert tags == {"run"}
    text = keys_module.__doc__ or ""
    assert all(f"| {name.partition(':')[0]}" in text for name in DOCUMENTED)


async def test_memory_stays_flat_over_many_jobs(redis_url: str, run_name: str) -> None:
    config = BrokerConfig(outage_timeout=1)
    async with (
        connect(redis_url, run=run_name, config=config) as broker,
        raw(redis_url) as client,
    ):
        await broker.create_run(make_spec(), "me", RunLimits(max_jobs=50, done_keep=50))

        async def work(batch: int) -> int:
            for n in range(150):
                await broker.jobs.submit(make_job(f"j{batch}-{n}"))
                (taken,) = await broker.jobs.take("a", TRAIN)
                if n % 10 == 0:
                    await broker.jobs.cancel([taken.job.job_id])
                else:
                    await broker.jobs.complete("a", taken, b"x" * 1000, 1)
            entries = await broker.results.read(200)
            await broker.results.ack([entry.entry_id for entry in entries], {}, 1)
            sizes = [
                await client.memory_usage(key) or 0
                for key in await client.keys(f"asyncrl:{{{run_name}}}:*")
            ]
            return sum(sizes)

        sizes = [await work(batch) for batch in range(4)]
        assert sizes[-1] < sizes[0] * 1.5
        assert await client.hlen(f"asyncrl:{{{run_name}}}:done") <= 50
        assert await client.zcard(f"asyncrl:{{{run_name}}}:done:order") <= 50
        assert await client.hlen(f"asyncrl:{{{run_name}}}:cancelled") <= 50


async def test_two_runs_on_one_server_do_not_meet(
    redis_url: str, run_name: str, learner: Broker
) -> None:
    async with connect(redis_url, run=f"{run_name}-other", config=QUICK) as other:
        await other.create_run(make_spec(env="Acrobot-v1"), "me")
        await other.jobs.submit(make_job("x"))
        assert await learner.jobs.live() == set()
        assert (await learner.ledger()).issued == 0
