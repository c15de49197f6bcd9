"""A proxy that breaks connections on purpose, for trying what a client does about it."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from enum import StrEnum
from types import TracebackType
from typing import Self
from urllib.parse import unquote, urlsplit, urlunsplit

_CHUNK = 65_536


class Fault(StrEnum):
    """What a `FaultyProxy` does with what passes through it."""

    PASS = "pass"  # noqa: S105 - no password
    """Forward everything."""
    DELAY = "delay"
    """Forward replies `FaultyProxy.delay` seconds late."""
    DROP_REPLY = "drop_reply"
    """Forward requests, then close the connection in place of the reply."""
    BLACKHOLE = "blackhole"
    """Take requests and forward nothing; connections stay open and silent."""
    RESET = "reset"
    """Reset (RST) connections, present and new."""


class FaultyProxy:
    """A TCP proxy on 127.0.0.1 in front of a server, whose `fault` can be changed at any time.

    ``async with FaultyProxy(server.url) as proxy: connect(proxy.url)``. All connections end with
    the block.
    """

    def __init__(self, url: str, *, delay: float = 0.1) -> None:
        """Take the ``redis://`` or ``unix://`` URL of the server behind, and seconds of delay."""
        self._target = urlsplit(url)
        self.delay = delay
        self.connections = 0
        """Connections ever accepted."""
        self.dropped = 0
        """Replies dropped."""
        self._fault = Fault.PASS
        self._drops: int | None = None
        self._server: asyncio.Server | None = None
        self._links: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    @property
    def port(self) -> int:
        """TCP port the proxy listens on."""
        if self._server is None:
            raise RuntimeError("the proxy is not started; use it in an 'async with' block")
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    @property
    def url(self) -> str:
        """URL of the server through the proxy, with the server's own credentials and database."""
        credentials, at, _ = self._target.netloc.rpartition("@")
        path = "/0" if self._target.scheme == "unix" else self._target.path
        netloc = f"{credentials}{at}127.0.0.1:{self.port}"
        return urlunsplit(("redis", netloc, path, self._target.query, ""))

    @property
    def fault(self) -> Fault:
        """What happens now."""
        return self._fault

    def set_fault(self, fault: Fault, *, times: int | None = None) -> None:
        """Change what happens; after `times` dropped replies (None: never) all pass again."""
        self._fault = fault
        self._drops = times if fault is Fault.DROP_REPLY else None
        if fault is Fault.RESET:
            for writer in self._links.values():
                _reset(writer)

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._server is not None:
            self._server.close()
        for task in list(self._links):
            task.cancel()
        await asyncio.gather(*self._links, return_exceptions=True)
        self._server = None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - the server runs this in a task
        self.connections += 1
        self._links[task] = writer
        try:
            if self._fault is Fault.RESET:
                _reset(writer)
                return
            await self._link(reader, writer)
        except (OSError, EOFError):
            pass  # either side went away, which ends the link
        except asyncio.CancelledError:
            pass  # the proxy closes; the task is its own
        finally:
            self._links.pop(task, None)
            writer.close()
            with contextlib.suppress(OSError, asyncio.CancelledError):
                await writer.wait_closed()

    async def _link(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server_reader, server_writer = await self._connect()
        there = asyncio.ensure_future(self._requests(reader, server_writer))
        back = asyncio.ensure_future(self._replies(server_reader, writer))
        try:
            await asyncio.wait((there, back), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (there, back):
                task.cancel()
            server_writer.close()  # before the first await, where the proxy's end may cancel us
            await asyncio.gather(there, back, return_exceptions=True)
            with contextlib.suppress(OSError):
                await server_writer.wait_closed()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._target.scheme == "unix":
            return await asyncio.open_unix_connection(unquote(self._target.path))
        return await asyncio.open_connection(self._target.hostname, self._target.port or 6379)

    async def _requests(self, reader: asyncio.StreamReader, server: asyncio.StreamWriter) -> None:
        while data := await reader.read(_CHUNK):
            if self._fault is not Fault.BLACKHOLE:
                server.write(data)
                await server.drain()

    async def _replies(self, server: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await server.read(_CHUNK):
            if self._fault is Fault.BLACKHOLE:
                continue
            if self._fault is Fault.DROP_REPLY:
                self._count_drop()
                return
            if self._fault is Fault.DELAY:
                await asyncio.sleep(self.delay)
            writer.write(data)
            await writer.drain()

    def _count_drop(self) -> None:
        self.dropped += 1
        if self._drops is not None:
            self._drops -= 1
            if self._drops <= 0:
                self._fault = Fault.PASS


def _reset(writer: asyncio.StreamWriter) -> None:
    """Close with RST instead of FIN."""
    sock: socket.socket | None = writer.get_extra_info("socket")
    if sock is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
