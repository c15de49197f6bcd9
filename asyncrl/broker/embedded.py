"""The bundled server: a real Valkey as our own child process, gone when we are."""

from __future__ import annotations

import os
import secrets
import socket
import weakref
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import NoReturn, Self
from urllib.parse import quote

import anyio

from asyncrl.broker.server_binary import find_server_binary
from asyncrl.broker.server_config import answers_ping, free_port, write_config
from asyncrl.broker.server_process import (
    DataFolder,
    PrivateFolder,
    ServerProcess,
    kept_copy,
    log_tail,
)
from asyncrl.errors import ConfigError, EmbeddedServerError

__all__ = ["EmbeddedServer", "find_server_binary"]

_SOCKET = "r.sock"
_POLL_SECONDS = 0.1
_PORT_TRIES = 5
_WILDCARDS = ("0.0.0.0", "::", "*")  # noqa: S104 - compared with, not bound


@dataclass
class _Resources:
    """What has to be released whatever happens, apart from the server so a finalizer can do it."""

    folder: PrivateFolder
    owner_pid: int
    data: DataFolder | None = None
    process: ServerProcess | None = None

    def release(self) -> None:
        if os.getpid() != self.owner_pid:  # a fork of our process: nothing here is its own
            return
        if self.process is not None:
            self.process.kill()
        self.folder.remove()
        if self.data is not None:
            self.data.release()


class EmbeddedServer:
    """A private Valkey (or Redis) server for the time of an ``async with`` block.

    It listens on a unix socket in a private folder and, if asked, on a TCP port with a password, so
    that actors on other machines can join. It never evicts (``noeviction``). It stops when the
    block ends, and dies with this process and, on Linux, with the thread that entered the block,
    even when they are killed. Its folder goes too.

    When the server dies by itself, the next `check`, `watch` or the end of the block raises
    `EmbeddedServerError` with the end of its log, and the log is kept.
    """

    def __init__(
        self,
        *,
        tcp_port: int | None = None,
        host: str = "127.0.0.1",
        password: str | None = None,
        appendonly: bool = False,
        data_dir: Path | None = None,
        log_path: Path | None = None,
        binary: Path | None = None,
        deadline: float = 10.0,
    ) -> None:
        """Describe a server; entering the block starts it.

        Args:
            tcp_port: Port to listen on as well as the socket, 0 for a free one, None for none.
            host: Address to listen on when there is a port.
            password: Password when there is a port; None for a generated one.
            appendonly: Write every change to disk (fsync every second), so that a restart loses
                nothing.
            data_dir: Where that is written, kept between starts; None for the private folder.
            log_path: File to append the server's log to, kept; None for the private folder.
            binary: Server binary to run; None for the one `find_server_binary` finds.
            deadline: Seconds the server may take to start, and seconds to stop before it is killed.

        Raises:
            ConfigError: The port or the password cannot be used.
        """
        if tcp_port is not None and not 0 <= tcp_port < 65_536:
            raise ConfigError("tcp_port", tcp_port, "not a port number", "give 0 to 65535")
        if password is not None and (not password.isprintable() or not password):
            raise ConfigError("password", "***", "empty or unprintable", "give visible characters")
        if password is not None and tcp_port is None:
            raise ConfigError("password", "***", "there is no TCP port to protect", "give tcp_port")
        self._wanted_port = tcp_port
        self._host = host
        self._password = ""
        if tcp_port is not None:
            self._password = password or secrets.token_urlsafe(24)
        self._appendonly = appendonly
        self._data_dir = data_dir
        self._kept_log = log_path
        self._binary = binary
        self._deadline = deadline
        self._port: int | None = None
        self._resources: _Resources | None = None
        self._finalizer: weakref.finalize[[], EmbeddedServer] | None = None
        self._killed = False
        self._failure: EmbeddedServerError | None = None
        self._reported = False

    def __repr__(self) -> str:
        if self._resources is None:
            return "<EmbeddedServer stopped>"
        tcp = "" if self._port is None else f" tcp={self._host}:{self._port}"
        return f"<EmbeddedServer {self.socket_path}{tcp}>"

    @property
    def socket_path(self) -> Path:
        """The unix socket. Like the other properties, `EmbeddedServerError` unless started."""
        return self._started().folder.path / _SOCKET

    @property
    def url(self) -> str:
        """``unix://`` URL for this machine. Holds the password when there is a TCP port."""
        user = f":{quote(self._password, safe='')}@" if self._password else ""
        return f"unix://{user}{quote(str(self.socket_path))}"

    @property
    def tcp_url(self) -> str:
        """``redis://`` URL for other machines, password included.

        Raises:
            EmbeddedServerError: The server was not asked for a TCP port.
        """
        self._started()
        if self._port is None:
            raise EmbeddedServerError(
                "this server listens on a unix socket only; start it with tcp_port=0"
            )
        host = socket.gethostname() if self._host in _WILDCARDS else self._host
        bracketed = f"[{host}]" if ":" in host else host
        return f"redis://:{quote(self._password, safe='')}@{bracketed}:{self._port}/0"

    @property
    def password(self) -> str:
        """Password of the TCP port and of the socket; "" when there is no port."""
        return self._password

    @property
    def pid(self) -> int:
        """Process id of the server."""
        process = self._started().process
        if process is None:
            raise EmbeddedServerError("the server is not running; call start() or restart()")
        return process.pid

    @property
    def log_path(self) -> Path:
        """The server's log."""
        return self._kept_log or self._started().folder.path / "server.log"

    async def start(self) -> None:
        """Start the server and wait until it answers.

        Raises:
            EmbeddedServerError: It did not start or did not answer in time; the end of its log is
                in the message.
            MissingExtraError: There is no server binary.
        """
        if self._resources is not None:
            raise EmbeddedServerError("the server is started already; call restart() instead")
        binary = self._binary or find_server_binary()
        resources = _Resources(PrivateFolder(socket_name=_SOCKET), os.getpid())
        self._resources = resources
        self._finalizer = weakref.finalize(self, resources.release)
        self._failure, self._reported, self._killed = None, False, False
        try:
            if self._data_dir is not None:
                resources.data = DataFolder(self._data_dir)
            await self._launch(binary)
        except BaseException:
            self._finalizer()
            self._resources = None
            raise

    async def restart(self) -> None:
        """Stop the server if it runs; start it again with the same URLs and data."""
        resources = self._started()
        await self._stop(resources)
        self._failure, self._reported, self._killed = None, False, False
        await self._launch(self._binary or find_server_binary())

    def kill(self) -> None:
        """End the server at once, as a crash would, but without it counting as a failure."""
        self._killed = True
        process = self._started().process
        if process is not None:
            process.kill()

    def check(self) -> None:
        """Raise `EmbeddedServerError` if the server died by itself."""
        failure = self._find_failure()
        if failure is not None:
            self._reported = True
            raise failure

    async def watch(self) -> NoReturn:
        """Wait for the server to die by itself, then raise `EmbeddedServerError`."""
        while True:
            self.check()
            await anyio.sleep(_POLL_SECONDS)

    async def aclose(self) -> None:
        """Stop the server and remove its folder. May be called again."""
        resources = self._resources
        if resources is None:
            return
        try:
            await self._stop(resources)
        finally:
            if self._finalizer is not None:
                self._finalizer()
            self._resources = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._find_failure()
        await self.aclose()
        failure = self._failure
        if failure is None or error is failure or (error is None and self._reported):
            return
        # The death of the server is the cause of whatever broke in the block, also where a task
        # group wraps it, unless the block is being cancelled.
        if error is None or isinstance(error, Exception):
            raise failure from (None if self._reported else error)

    def _started(self) -> _Resources:
        if self._resources is None:
            raise EmbeddedServerError("the server is not started; use it in an 'async with' block")
        return self._resources

    def _find_failure(self) -> EmbeddedServerError | None:
        process = None if self._resources is None else self._resources.process
        if self._failure is None and process is not None and not self._killed:
            status = process.exit_status()
            if status is not None:
                self._failure = self._error(f"the bundled server {status}")
        return self._failure

    def _error(self, problem: str) -> EmbeddedServerError:
        """Return an error that carries the end of the log, which is kept from now on."""
        log = self.log_path
        tail = log_tail(log)
        if self._kept_log is None:
            log = kept_copy(log)
        return EmbeddedServerError(f"{problem}; its log is {log} and ends with:\n{tail}")

    async def _launch(self, binary: Path) -> None:
        resources = self._started()
        for attempt in range(1, _PORT_TRIES + 1):
            port = self._port or self._wanted_port
            if port == 0:
                port = free_port(self._host)
            config = self._write_config(port)
            # In this thread on purpose, not in a worker: on Linux the server lives as long as the
            # thread that made it.
            resources.process = ServerProcess(
                [str(binary), str(config)], resources.folder.path, self.log_path
            )
            problem = await self._readiness_problem(resources.process)
            if problem is None:
                self._port = port
                return
            resources.process.kill()
            resources.process = None
            taken = port != self._wanted_port and "in use" in log_tail(self.log_path)
            if not taken or attempt == _PORT_TRIES:
                raise self._error(problem)

    def _write_config(self, port: int | None) -> Path:
        resources = self._started()
        folder = resources.folder.path
        settings = {
            "unixsocket": str(folder / _SOCKET),
            "unixsocketperm": "700",
            "dir": str(resources.data.path if resources.data else folder),
            "appendonly": "yes" if self._appendonly else "no",
            "appendfsync": "everysec",
            "save": "",
            "maxmemory-policy": "noeviction",
            "daemonize": "no",
            "port": str(port or 0),
        }
        if port is not None:
            host = "*" if self._host in _WILDCARDS else self._host
            settings |= {"bind": host, "requirepass": self._password}
        return write_config(folder / "server.conf", settings)

    async def _readiness_problem(self, process: ServerProcess) -> str | None:
        """Wait until the server answers PING; return why it does not, or None."""
        pause = 0.005
        with anyio.move_on_after(self._deadline):
            while True:
                status = process.exit_status()
                if status is not None:
                    return f"the bundled server {status} before it answered"
                if await answers_ping(self.socket_path, self._password):
                    return None
                await anyio.sleep(pause)
                pause = min(2 * pause, _POLL_SECONDS)
        return f"the bundled server did not answer within {self._deadline:g} s"

    async def _stop(self, resources: _Resources) -> None:
        process = resources.process
        if process is None:
            return
        with anyio.CancelScope(shield=True):
            process.terminate()
            with anyio.move_on_after(self._deadline):
                pause = 0.002
                while process.exit_status() is None:
                    await anyio.sleep(pause)
                    pause = min(2 * pause, _POLL_SECONDS)
        if process.exit_status() not in (None, "exited with code 0", "was killed by SIGTERM"):
            self._find_failure()  # it was dying already, which shows only once all of it is gone
        process.kill()
        resources.process = None
