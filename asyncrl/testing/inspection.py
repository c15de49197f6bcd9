"""What a test left on a server, asked over a plain socket so that no client library is needed."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from io import BufferedReader
from pathlib import Path
from types import TracebackType
from typing import Self

_TIMEOUT = 10.0

Reply = bytes | int | None | list["Reply"]


class Inspector:
    """A connection that looks at a server's keys and clients, and removes keys.

    Raises `OSError` where the server cannot be reached, `RuntimeError` where it answers an error.
    """

    def __init__(self, socket_path: Path, password: str = "") -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(_TIMEOUT)
        self._socket.connect(str(socket_path))
        self._replies: BufferedReader = self._socket.makefile("rb")
        if password:
            self.command("AUTH", password)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._replies.close()
        self._socket.close()

    def command(self, *words: str) -> Reply:
        """Send one command and return its reply."""
        encoded = [word.encode() for word in words]
        lines = b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in encoded)
        self._socket.sendall(b"*%d\r\n%s" % (len(encoded), lines))
        return self._reply()

    def keys(self) -> set[str]:
        """Return the names of all keys."""
        found: set[str] = set()
        cursor = "0"
        while True:
            reply = self.command("SCAN", cursor, "COUNT", "1000")
            match reply:
                case [bytes(following), list(names)]:
                    found |= {name.decode() for name in names if isinstance(name, bytes)}
                    cursor = following.decode()
                case _:
                    raise RuntimeError(f"SCAN answered {reply!r}")
            if cursor == "0":
                return found

    def delete(self, keys: Iterable[str]) -> None:
        """Delete keys."""
        for key in keys:
            self.command("UNLINK", key)

    def clients(self) -> dict[int, str]:
        """Return client id -> line of CLIENT LIST for every connection but this one."""
        own = self.command("CLIENT", "ID")
        listing = self.command("CLIENT", "LIST")
        if not isinstance(listing, bytes):
            raise TypeError(f"CLIENT LIST answered {listing!r}")
        lines = listing.decode().splitlines()
        found = {int(line.split(" ", 1)[0].removeprefix("id=")): line for line in lines if line}
        return {number: line for number, line in found.items() if number != own}

    def _reply(self) -> Reply:
        line = self._replies.readline()
        kind, rest = line[:1], line[1:].rstrip(b"\r\n")
        if kind == b"+":
            return rest
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return None if rest == b"-1" else self._replies.read(int(rest) + 2)[:-2]
        if kind == b"*":
            return [self._reply() for _ in range(int(rest))]
        raise RuntimeError(f"the server answered {line.decode(errors='replace')!r}")
