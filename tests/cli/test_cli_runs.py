"""Looking after a server: which runs are there, and how one is removed."""

from __future__ import annotations

import re
import secrets
import subprocess
import sys
from pathlib import Path

import pytest

from asyncrl.broker import Beat, RunLimits, connect
from asyncrl.broker.embedded import EmbeddedServer
from asyncrl.broker.runs import delete_run, list_runs
from asyncrl.cli.server import main
from asyncrl.data import EnvSpec, JobKind, JobUnit, PolicySpec, RolloutJob, RunSpec, SpaceSpec
from asyncrl.errors import BrokerRefused, RunNotFound, RunStateLost

SPEC = RunSpec(
    env=EnvSpec(env="CartPole-v1"),
    policies={
        "policy": PolicySpec(
            observation=SpaceSpec(kind="box", shape=(4,)),
            action=SpaceSpec(kind="discrete", n=2, dtype="int64"),
            head="categorical",
        )
    },
)


async def make_run(url: str, name: str, *, finished: bool = False) -> None:
    """Leave a run behind, of a learner that is gone."""
    async with connect(url, run=name) as broker:
        await broker.create_run(SPEC, "host:1", RunLimits(finished_ttl=600.0))
        await broker.weights.publish(1, b"w" * 2000, 1)
        if finished:
            await broker.finish_run(1)
            return
        for number in range(2):
            await broker.jobs.submit(
                RolloutJob(
                    job_id=f"j{number}",
                    kind=JobKind.TRAIN,
                    unit=JobUnit.STEPS,
                    size=5,
                    generation=1,
                )
            )
        (taken,) = await broker.jobs.take("a", [JobKind.TRAIN])
        await broker.jobs.complete("a", taken, b"x", 5)


async def test_runs_are_listed_with_all_that_is_known_of_them(
    redis_url: str, run_name: str
) -> None:
    await make_run(redis_url, f"{run_name}-a")
    await make_run(redis_url, f"{run_name}-b", finished=True)
    first, second = [r for r in await list_runs(redis_url) if r.name.startswith(run_name)]
    assert (first.state, first.generation, first.owner) == ("running", 1, "host:1")
    assert (first.actors, first.in_flight, first.waiting) == (0, 1, 1)
    assert first.keys >= 10
    assert first.nbytes is not None
    assert first.nbytes > 2000
    assert (first.expires_seconds, second.state) == (None, "finished")
    assert 500 < (second.expires_seconds or 0) <= 600


async def test_a_run_is_removed_whole_and_no_other(redis_url: str, run_name: str) -> None:
    # One name is the beginning of the other.
    for name in (run_name, f"{run_name}-2"):
        await make_run(redis_url, name)
    was = await delete_run(redis_url, run_name)
    assert (was.name, was.in_flight) == (run_name, 1)
    left = [run.name for run in await list_runs(redis_url) if run.name.startswith(run_name)]
    assert left == [f"{run_name}-2"]
    with pytest.raises(RunNotFound, match=run_name):
        await delete_run(redis_url, run_name)


async def test_a_run_in_use_is_removed_by_force_only(redis_url: str, run_name: str) -> None:
    await make_run(redis_url, run_name)
    async with connect(redis_url, run=run_name) as broker:
        await broker.read_run()
        with pytest.raises(BrokerRefused, match=r"0 actors alive, 1 connections.*--force"):
            await delete_run(redis_url, run_name)
        await broker.presence.beat(Beat(actor_id="a", sequence=1))
    with pytest.raises(BrokerRefused, match="1 actors alive"):
        await delete_run(redis_url, run_name)
    async with connect(redis_url, run=run_name) as broker:
        await broker.read_run()
        await delete_run(redis_url, run_name, force=True)
        with pytest.raises(RunStateLost):
            await broker.ledger()


async def test_what_a_user_may_not_see_is_unknown_and_not_taken_for_idle() -> None:
    """Neither CLIENT LIST nor MEMORY USAGE is every user's to call."""
    async with EmbeddedServer(tcp_port=0) as server:
        await make_run(server.url, "r")
        password = secrets.token_hex(8)
        async with connect(server.url, run="r") as broker:
            rights = ("~asyncrl:*", "+@all", "-client|list", "-memory|usage")
            await broker._session.client.command(
                "ACL", "SETUSER", "clerk", "on", f">{password}", *rights
            )
        url = re.sub(r"//:.*@", f"//clerk:{password}@", server.url)
        (run,) = await list_runs(url)
        assert (run.state, run.nbytes) == ("running", None)
        with pytest.raises(BrokerRefused, match="may not see who is connected"):
            await delete_run(url, "r")
        await delete_run(url, "r", force=True)
        assert await list_runs(url) == []


async def test_strange_keys_do_not_stop_the_list(redis_url: str, run_name: str) -> None:
    async with connect(redis_url, run=run_name) as broker:
        command = broker._session.client.command
        keys = broker._session.keys
        for key in (keys.meta, keys.live, keys.results):
            await command("SET", key, "of another type")
        await command("HSET", keys.actors, "x", b"\xff garbage")
        (run,) = [run for run in await list_runs(redis_url) if run.name == run_name]
        assert (run.state, run.in_flight, run.waiting, run.actors) == (None, None, None, 0)
        await delete_run(redis_url, run_name, force=True)


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "asyncrl.broker", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)


@pytest.mark.e2e
async def test_the_command_lists_and_deletes(
    redis_url: str, run_name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ASYNCRL_REDIS_URL", redis_url)
    await make_run(redis_url, run_name)
    listed = run("runs")
    assert listed.returncode == 0, listed.stderr
    heading, *rows = listed.stdout.splitlines()
    assert re.match(r"run +state +generation +owner +actors +in flight +waiting", heading)
    (row,) = [row for row in rows if row.startswith(run_name)]
    assert re.search(r"running +1 +host:1 +0 +1 +1 +\d+ +\d+\.\d MiB +never$", row), row
    deleted = run("delete", run_name)
    assert deleted.returncode == 0, deleted.stderr
    assert re.match(rf"deleted run {run_name} \(running\): \d+ keys, .*1 jobs", deleted.stdout)
    again = run("delete", run_name, "--redis", redis_url)
    assert again.returncode == 1
    assert re.match(rf"asyncrl\.broker: error: there is no run '{run_name}'", again.stderr)


@pytest.mark.parametrize(
    ("arguments", "pattern"),
    [
        (["list"], r"command='list': no such command; give runs or delete"),
        (["runs"], r"redis=None: no server is given"),
        (["delete", "--redis", "redis://127.0.0.1:1/0"], r"no run is named"),
        (["delete", "a/b", "--redis", "redis://127.0.0.1:1/0"], r"run='a/b'"),
        (["runs", "--force"], r"no such option"),
    ],
)
def test_wrong_usage_is_one_clear_line(
    arguments: list[str],
    pattern: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("ASYNCRL_REDIS_URL", raising=False)
    assert main(arguments) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert re.search(pattern, line), line
