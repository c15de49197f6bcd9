"""What strangers write into a run's structures is refused, and ends nobody."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from broker_world import BOTH, QUICK, connect, make_job, make_spec, raw
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from asyncrl.broker import Beat, Broker
from asyncrl.errors import AsyncRLError

Fields = dict[bytes, bytes]

VALUES = st.one_of(
    st.binary(max_size=20),
    st.sampled_from(
        [
            *(b"", b"0", b"1", b"-1", b"1.5", b"nan", b"inf", b"1e400", b" 1", b"\xd9\xa3"),
            *(b"9" * 19, b"9" * 5000, b"1-1", b"1:1", b"1:1:x", b"1:1:99999999999", b"a:b:c 1:2:3"),
            *(b"train|1-0|1", b"||", b"failure", b"dead", b"finished", b"asyncrl:elsewhere"),
            *(b"7|asyncrl:elsewhere", b"1 ", b"1 null", b"1 []", b"x {}", b"1 {}", b"1 NaN"),
            b'1 {"seq": 1, "held": {"1-0": "x"}, "info": {}}',
            b'1 {"seq": true, "held": {}, "info": {}}',
            b'1 {"seq": 1, "held": [], "info": {}}',
            b'1 {"seq": 1, "held": {}, "info": {"a": []}}',
            b'1 {"seq": 1, "held": {}, "waiting": ["1-0"], "info": {}}',
            b'1 {"seq": 1e999, "held": {}, "info": {}}',
            b'1 {"seq": ' + b"9" * 5000 + b', "held": {}, "info": {}}',
            b"1 " + b"[" * 5000,
        ]
    ),
)
LETTERS = st.sampled_from([*(bytes([letter]) for letter in b"jkngprasebft"), b"\xff"])
ENTRIES = st.dictionaries(LETTERS, VALUES, min_size=1, max_size=12)


def some_of(*names: str) -> st.SearchStrategy[Fields]:
    keys = st.sampled_from([name.encode() for name in names])
    return st.dictionaries(keys, VALUES, min_size=1, max_size=len(names))


STREAMS = ("jobs:train", "jobs:eval", "results", "events", "dead")
HASHES = {
    "actors": st.dictionaries(st.binary(max_size=8), VALUES, min_size=1),
    "weights": some_of("generation", "version", "sha", "parts", "history", "bytes"),
    "sizes": some_of("1-1"),
    "live": some_of("a", "b"),
    "ledger": some_of("issued", "bytes", "accepted", "dropped:x", "\u00ff", "stranger"),
    "meta": some_of(
        *("protocol", "library", "spec", "generation", "owner", "state", "token"),
        *("limit:max_attempts", "limit:done_keep", "limit:blob_ttl", "limit:keep_versions"),
    ),
}
GIVES_UP = {"ledger", "meta"}
"""Structures without which a run cannot go on: with an error of asyncrl's own."""


async def take_off(broker: Broker) -> None:
    """Do with results what a learner does with bad ones."""
    entries = await broker.results.read(100, block=False)
    entries += await broker.results.read_pending()
    dropped = {entry.entry_id: "invalid" for entry in entries}
    await broker.results.ack([], dropped | {"1-1": "invalid"}, broker.generation)


async def take_away(broker: Broker) -> None:
    """Do with stuck jobs what a learner does."""
    for job in await broker.jobs.pending():
        await broker.jobs.reassign(job.token, job.kind, "stuck")


READERS: list[Callable[[Broker], Awaitable[object]]] = [
    lambda b: b.presence.actors(),
    lambda b: b.presence.retire_idle(0.0),
    lambda b: b.jobs.pending(),
    lambda b: b.jobs.queued(),
    lambda b: b.jobs.live(),
    lambda b: b.jobs.dead(),
    lambda b: b.jobs.cancel(["a", "b"]),
    lambda b: b.events.tail(),
    lambda b: b.events.latest(),
    lambda b: b.weights.pointer(),
    lambda b: b.weights.kept_parts(),
    lambda b: b.results.waiting(),
    lambda b: b.backlog(),
    lambda b: b.ledger(),
    lambda b: b.read_run(),
    take_away,
    take_off,
    lambda b: b.presence.beat(Beat(actor_id="mine", sequence=1)),
    lambda b: b.finish_run(b.generation),
    lambda b: b.create_run(make_spec(), "heir"),
]


async def meddle(url: str, run: str, structure: str, fields: Fields) -> None:
    """Garble one structure of a new run; then every reader has to come to terms with it."""
    async with connect(url, run=run, config=QUICK) as broker, raw(url) as client:
        await broker.create_run(make_spec(), "me")
        key = f"{broker._session.keys.prefix}{structure}"
        if structure in STREAMS:
            await client.xadd(key, fields)
        else:
            await client.hset(key, mapping=fields)
        if structure == "sizes":
            await client.xadd(broker._session.keys.results, {"p": "x"}, "1-1")
        await deliver(broker)
        for reader in READERS:
            try:
                await reader(broker)
            except AsyncRLError:
                assert structure in GIVES_UP
        await client.delete(*[key async for key in client.scan_iter(f"asyncrl:{{{run}}}:*")])


async def deliver(broker: Broker) -> None:
    """Have an actor take whatever is queued, as raw as it is."""
    command = broker._session.client.command
    for kind in BOTH:
        stream = broker._session.keys.jobs(kind)
        await command("XREADGROUP", "GROUP", "actors", "x", "STREAMS", stream, ">")


@pytest.mark.parametrize("structure", [*STREAMS, *HASHES])
def test_garbage_in_a_structure_is_never_more_than_an_error_of_our_own(
    redis_url: str, run_name: str, structure: str
) -> None:
    with asyncio.Runner() as runner:

        @settings(max_examples=20, deadline=None, phases=(Phase.generate,))
        @given(fields=HASHES.get(structure, ENTRIES))
        def check(fields: Fields) -> None:
            runner.run(meddle(redis_url, f"{run_name}-{secrets.token_hex(4)}", structure, fields))

        check()


async def test_a_malformed_beat_is_refused_by_name_and_the_others_count(
    redis_url: str, learner: Broker, actor: Broker
) -> None:
    await actor.presence.beat(Beat(actor_id="good", sequence=3))
    async with raw(redis_url) as client:
        await client.hset(learner._session.keys.actors, "x", "garbage")
    seen = await learner.presence.roll_call()
    assert [each.actor_id for each in seen.actors] == ["good"]
    assert seen.rejected == ("x",)
    assert [each.actor_id for each in await learner.presence.actors()] == ["good"]


async def test_more_strange_events_than_one_look_takes_hide_no_real_one(
    redis_url: str, learner: Broker, actor: Broker
) -> None:
    async with raw(redis_url) as client:
        for _ in range(5):
            await client.xadd(learner._session.keys.events, {"t": "of-the-future"})
    await actor.presence.beat(Beat(actor_id="a", sequence=1))
    assert [event.actor_id for event in await learner.events.tail(count=2)] == ["a"]


async def test_a_result_cannot_name_a_key_that_is_no_payload(
    redis_url: str, learner: Broker
) -> None:
    keys = learner._session.keys
    async with raw(redis_url) as client:
        for blob in (keys.meta, f"asyncrl:{{{learner.run}-other}}:blob:1", keys.blob("hash")):
            await client.xadd(keys.results, {"j": "x", "b": blob})
        await client.hset(keys.blob("hash"), "of", "another type")
        entries: list[Any] = await learner.results.read()
        assert [entry.payload for entry in entries] == [None] * 3
        sizes = {entry.entry_id: f"7|{keys.meta}" for entry in entries}
        await client.hset(keys.sizes, mapping=sizes)
        dropped = {entry.entry_id: "invalid" for entry in entries}
        assert await learner.results.ack([], dropped, 1) == 3
        assert await client.exists(keys.meta)
    assert await learner.jobs.submit(make_job())
