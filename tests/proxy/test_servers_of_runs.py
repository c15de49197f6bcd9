"""What a learner says of a server that is full, forgets, or tells too little."""

from __future__ import annotations

import re

import anyio
import pytest
from remote_world import QUICK, learner, workers

from asyncrl.broker import connect
from asyncrl.broker.embedded import EmbeddedServer
from asyncrl.metrics import (
    Message,
    Progress,
)
from asyncrl.testing import Recorder, wait_until

pytestmark = pytest.mark.usefixtures("one_thread")


async def test_a_server_out_of_memory_is_said_and_so_is_the_end_of_it(run_name: str):
    recorder = Recorder()
    async with (
        EmbeddedServer() as server,
        connect(server.url, run=run_name, config=QUICK) as broker,
        workers(server.url, run_name, 1),
        anyio.create_task_group() as tasks,
    ):

        def said(pattern: str) -> bool:
            return any(re.search(pattern, each.text) for each in recorder.of(Message))

        def counted() -> int:
            return recorder.of(Progress)[-1].counters.get("out_of_memory", 0)

        async def fill() -> None:
            await wait_until(lambda: bool(recorder.of(Progress)), 20, "an update")
            assert not said("memory")
            await broker._session.client.command("CONFIG", "SET", "maxmemory", "1")
            await wait_until(lambda: said(r"unix socket.*out of memory.*of maxmemory"), 5, "word")
            await broker._session.client.command("CONFIG", "SET", "maxmemory", "0")
            await wait_until(lambda: said("has memory again"), 5, "word")
            await wait_until(lambda: counted() == 1, 5, "progress")
            run.stop()

        run = learner(broker, 10**9, sinks=(recorder,))
        tasks.start_soon(fill)
        assert (await run.run()).outcome == "stopped"
    assert len([each for each in recorder.of(Message) if "memory" in each.text]) == 2


async def test_a_user_who_may_not_see_how_full_the_server_is_trains_all_the_same(run_name: str):
    recorder = Recorder()
    async with EmbeddedServer(tcp_port=0) as server:
        async with connect(server.url, run=run_name, config=QUICK) as broker:
            rights = ("on", ">secret", "~*", "+@all", "-info")
            await broker._session.client.command("ACL", "SETUSER", "clerk", *rights)
        url = re.sub(r"//:.*@", "//clerk:secret@", server.url)
        async with connect(url, run=run_name, config=QUICK) as broker:
            assert await broker.memory() is None
            async with workers(url, run_name, 1):
                result = await learner(broker, 100, sinks=(recorder,)).run()
    assert result.outcome == "steps"
    assert not [each for each in recorder.of(Message) if "out of memory" in each.text]


async def test_a_server_that_forgets_is_said_to_the_learners_user(run_name: str):
    recorder = Recorder()
    async with EmbeddedServer(tcp_port=0) as server:
        async with (
            connect(server.tcp_url, run=run_name, config=QUICK) as broker,
            workers(server.tcp_url, run_name, 1),
        ):
            await learner(broker, 100, sinks=(recorder,)).run()
    (said,) = [each.text for each in recorder.of(Message) if "disk" in each.text]
    assert "keeps nothing on disk" in said
