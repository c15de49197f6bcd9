from __future__ import annotations

import asyncio
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil
import pytest

from asyncrl.broker.embedded import EmbeddedServer, find_server_binary
from asyncrl.errors import ConfigError, EmbeddedServerError, MissingExtraError
from asyncrl.testing import wait_until, wait_until_sync
from asyncrl.testing.inspection import Inspector


def inspect(server: EmbeddedServer) -> Inspector:
    return Inspector(server.socket_path, server.password)


def is_running(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def nothing(name: str) -> None:
    """Find nothing, whatever is looked for."""


def script(folder: Path, body: str) -> Path:
    path = folder / "server"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


async def test_the_server_answers_on_a_private_socket_and_leaves_nothing() -> None:
    async with EmbeddedServer() as server:
        folder = server.socket_path.parent
        pid = server.pid
        assert server.url == f"unix://{server.socket_path}"
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        with inspect(server) as inspector:
            assert inspector.command("PING") == b"PONG"
            assert inspector.command("CONFIG", "GET", "maxmemory-policy") == [
                b"maxmemory-policy",
                b"noeviction",
            ]
    assert not folder.exists()
    assert not is_running(pid)
    assert repr(server) == "<EmbeddedServer stopped>"


async def test_a_tcp_port_asks_for_a_password_that_is_shown_nowhere() -> None:
    async with EmbeddedServer(tcp_port=0) as server:
        password = server.password
        assert len(password) >= 24
        assert server.tcp_url.startswith(f"redis://:{password}@127.0.0.1:")
        assert int(server.tcp_url.rsplit(":", 1)[1].removesuffix("/0")) < 55_535
        assert password in server.url
        assert password not in repr(server)
        assert password not in " ".join(psutil.Process(server.pid).cmdline())
        config = server.socket_path.parent / "server.conf"
        assert stat.S_IMODE(config.stat().st_mode) == 0o600
        with (
            Inspector(server.socket_path) as stranger,
            pytest.raises(RuntimeError, match="NOAUTH"),
        ):
            stranger.command("PING")


async def test_a_password_of_ones_own_may_hold_any_visible_character() -> None:
    strange = "a \"b\\c'@:/é"
    async with EmbeddedServer(tcp_port=0, password=strange) as server:
        with inspect(server) as inspector:
            assert inspector.command("PING") == b"PONG"
        assert "@" not in server.tcp_url.removeprefix("redis://").partition("@")[0]


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"tcp_port": 70_000}, "tcp_port"),
        ({"tcp_port": 0, "password": ""}, "password"),
        ({"tcp_port": 0, "password": "two\nlines"}, "password"),
        ({"password": "secret"}, "password"),
    ],
)
def test_wrong_options_are_refused_and_passwords_not_repeated(
    options: dict[str, object], field: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        EmbeddedServer(**options)  # pyright: ignore[reportArgumentType] - wrong on purpose
    assert caught.value.field == field
    assert "secret" not in str(caught.value)


async def test_an_address_of_another_machine_is_a_clear_error() -> None:
    with pytest.raises(ConfigError, match=r"192\.0\.2\.1"):
        await EmbeddedServer(tcp_port=0, host="192.0.2.1").start()


async def test_a_taken_port_is_an_error_that_shows_the_servers_log() -> None:
    async with EmbeddedServer(tcp_port=0) as server:
        port = int(server.tcp_url.rsplit(":", 1)[1].removesuffix("/0"))
        with pytest.raises(EmbeddedServerError, match="in use") as caught:
            await EmbeddedServer(tcp_port=port).start()
    remove_kept_log(caught.value)


async def start_and_stop() -> None:
    async with EmbeddedServer():
        pass


KILLED_PARENT = """
import asyncio, sys, types
import asyncrl.broker.server_process as server_process
from asyncrl.broker.embedded import EmbeddedServer
if sys.argv[1] == "watcher":
    server_process.sys = types.SimpleNamespace(platform="darwin", executable=sys.executable)
async def main():
    async with EmbeddedServer() as server:
        print(server.pid, server.socket_path.parent, flush=True)
        await asyncio.sleep(60)
asyncio.run(main())
"""


@pytest.mark.parametrize("guard", ["kernel", "watcher"])
def test_a_killed_parent_leaves_no_server_and_the_next_start_no_folder(guard: str) -> None:
    if guard == "kernel" and sys.platform != "linux":
        pytest.skip("only Linux kills children with their parent")
    with subprocess.Popen(
        [sys.executable, "-c", KILLED_PARENT, guard], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        pid, folder = parent.stdout.readline().split()
        assert is_running(int(pid))
        parent.send_signal(signal.SIGKILL)
    wait_until_sync(lambda: not is_running(int(pid)), 5, "the server to die with its parent")
    assert Path(folder).exists()
    asyncio.run(start_and_stop())
    assert not Path(folder).exists()


async def test_a_server_in_use_keeps_its_folder_when_another_starts() -> None:
    async with EmbeddedServer() as first, EmbeddedServer() as second:
        for server in (first, second):
            with inspect(server) as inspector:
                assert inspector.command("PING") == b"PONG"


async def test_the_watcher_ends_with_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    children = set(psutil.Process().children())
    async with EmbeddedServer():
        assert len(set(psutil.Process().children()) - children) == 2
    assert not set(psutil.Process().children()) - children


async def test_ctrl_c_does_not_reach_the_server() -> None:
    async with EmbeddedServer() as server:
        assert os.getpgid(server.pid) != os.getpgid(0)


async def test_the_death_of_the_server_is_told_with_its_log_and_the_log_is_kept() -> None:
    async with EmbeddedServer() as server:
        server.check()
        os.kill(server.pid, signal.SIGKILL)
        with pytest.raises(EmbeddedServerError, match="was killed by SIGKILL") as caught:
            await server.watch()
    assert "ready to accept connections" in str(caught.value).lower()
    remove_kept_log(caught.value)


async def test_the_death_of_the_server_explains_what_broke_in_the_block() -> None:
    async def work() -> None:
        async with EmbeddedServer() as server:
            os.kill(server.pid, signal.SIGKILL)
            await wait_until(lambda: not is_running(server.pid), 5, "the server to die")
            raise ConnectionError("connection lost")

    with pytest.raises(EmbeddedServerError) as caught:
        await work()
    assert isinstance(caught.value.__cause__, ConnectionError)
    remove_kept_log(caught.value)


async def test_the_death_of_the_server_is_not_wrapped_by_a_task_group() -> None:
    async def work() -> None:
        async with EmbeddedServer() as server, asyncio.TaskGroup() as tasks:
            tasks.create_task(server.watch())
            os.kill(server.pid, signal.SIGKILL)

    with pytest.raises(EmbeddedServerError) as caught:
        await work()
    remove_kept_log(caught.value)


async def test_a_log_of_ones_own_is_kept_where_it_is(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    async with EmbeddedServer(log_path=log):
        pass
    assert "ready to accept connections" in log.read_text().lower()
    assert stat.S_IMODE(log.stat().st_mode) == 0o600


async def test_a_server_that_cannot_start_shows_why(tmp_path: Path) -> None:
    binary = script(tmp_path, "echo no luck today; exit 3")
    with pytest.raises(EmbeddedServerError, match="exited with code 3") as caught:
        await EmbeddedServer(binary=binary).start()
    assert "no luck today" in str(caught.value)
    assert "no luck today" in remove_kept_log(caught.value)


async def test_a_server_that_never_answers_is_given_up_and_killed(tmp_path: Path) -> None:
    binary = script(tmp_path, f"echo $$ > {tmp_path}/pid; exec sleep 60")
    with pytest.raises(EmbeddedServerError, match=r"did not answer within 0\.3 s") as caught:
        await EmbeddedServer(binary=binary, deadline=0.3).start()
    remove_kept_log(caught.value)
    assert not is_running(int((tmp_path / "pid").read_text()))


async def test_a_frozen_server_is_killed_when_the_deadline_passes() -> None:
    async with EmbeddedServer(deadline=0.3) as server:
        pid = server.pid
        os.kill(pid, signal.SIGSTOP)
    assert not is_running(pid)


async def test_a_crash_loses_nothing_when_changes_are_written_to_disk() -> None:
    async with EmbeddedServer(tcp_port=0, appendonly=True) as server:
        urls = (server.url, server.tcp_url)
        with inspect(server) as inspector:
            inspector.command("SET", "kept", "yes")
        server.kill()
        await server.restart()
        assert (server.url, server.tcp_url) == urls
        with inspect(server) as inspector:
            assert inspector.command("GET", "kept") == b"yes"


async def test_a_data_folder_outlives_the_server_and_serves_one_at_a_time(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    async with EmbeddedServer(appendonly=True, data_dir=folder) as server:
        with inspect(server) as inspector:
            inspector.command("SET", "kept", "yes")
        with pytest.raises(EmbeddedServerError, match="in use by another server"):
            await EmbeddedServer(appendonly=True, data_dir=folder).start()
    async with EmbeddedServer(appendonly=True, data_dir=folder) as server:
        with inspect(server) as inspector:
            assert inspector.command("GET", "kept") == b"yes"


async def test_a_long_temporary_folder_gives_way_to_a_short_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = tmp_path / ("long" * 20)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    async with EmbeddedServer() as server:
        assert not server.socket_path.is_relative_to(long)


async def test_a_stopped_server_says_how_to_start_it() -> None:
    server = EmbeddedServer()
    with pytest.raises(EmbeddedServerError, match="not started"):
        _ = server.url
    async with server:
        with pytest.raises(EmbeddedServerError, match="tcp_port=0"):
            _ = server.tcp_url
        with pytest.raises(EmbeddedServerError, match="started already"):
            await server.start()
        server.kill()
    await server.aclose()


def test_the_environment_variable_chooses_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    binary = script(tmp_path, "exit 0")
    monkeypatch.setenv("ASYNCRL_REDIS_SERVER", str(binary))
    assert find_server_binary() == binary
    monkeypatch.setenv("ASYNCRL_REDIS_SERVER", str(tmp_path / "missing"))
    with pytest.raises(ConfigError, match="not an executable file"):
        find_server_binary()


def test_the_wheel_comes_before_the_path_and_none_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ASYNCRL_REDIS_SERVER", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    script(tmp_path, "exit 0").rename(tmp_path / "redis-server")
    assert find_server_binary().parts[-3] == "_binaries"
    monkeypatch.setattr("importlib.util.find_spec", nothing)
    assert find_server_binary() == (tmp_path / "redis-server").resolve()
    monkeypatch.setattr(shutil, "which", nothing)
    with pytest.raises(MissingExtraError, match=r"asyncrl\[server\]"):
        find_server_binary()


def test_an_interpreter_that_ends_inside_the_block_leaves_nothing() -> None:
    code = (
        "import asyncio\n"
        "from asyncrl.broker.embedded import EmbeddedServer\n"
        "server = EmbeddedServer()\n"
        "asyncio.run(server.start())\n"
        "print(server.pid, server.socket_path.parent)\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=True)
    pid, folder = ended.stdout.decode().split()
    assert not Path(folder).exists()
    wait_until_sync(lambda: not is_running(int(pid)), 5, "the server to end")


def remove_kept_log(error: EmbeddedServerError) -> str:
    """Delete the log an error names and return what was in it."""
    path = Path(str(error).split("its log is ")[1].split(" and ends with")[0])
    text = path.read_text()
    path.unlink()
    return text
