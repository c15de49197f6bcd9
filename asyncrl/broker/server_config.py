"""What a server of our own is told, and how it is asked whether it is ready."""

from __future__ import annotations

import contextlib
import random
import socket
from collections.abc import Mapping
from pathlib import Path

import anyio

from asyncrl.errors import ConfigError

# Below the ports systems hand out to outgoing connections (32768 and up on Linux), and below the
# 55535 above which the port of a cluster bus (port + 10000) does not fit.
_FREE_PORTS = range(20_000, 32_000)

FOLDER_PREFIX = "asyncrl-server-"
"""What the name of a private server's folder starts with."""


def write_config(path: Path, settings: Mapping[str, str]) -> Path:
    """Write a configuration file only we may read, since it may hold a password; return `path`."""
    path.touch(mode=0o600)
    path.write_text("".join(f"{name} {_quoted(value)}\n" for name, value in settings.items()))
    return path


def free_port(host: str) -> int:
    """Return a port of `host` that nobody listens on. Another process may still take it first.

    Raises:
        ConfigError: `host` is not an address of this machine.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    address = "" if host == "*" else host
    for port in random.sample(_FREE_PORTS, 50):
        with socket.socket(family) as probe, contextlib.suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((address, port))
            return port
    raise ConfigError(
        "host",
        host,
        "no port can be bound there",
        "give an address of this machine, such as 127.0.0.1 or 0.0.0.0",
    )


async def answers_ping(socket_path: Path, password: str) -> bool:
    """Return whether the server on `socket_path` is ready: not while it is still loading data."""
    auth = f"AUTH {_quoted(password)}\r\n" if password else ""
    try:
        async with await anyio.connect_unix(socket_path) as stream:
            await stream.send(f"{auth}PING\r\n".encode())
            reply = b""
            while reply.count(b"\r\n") < (2 if auth else 1):
                reply += await stream.receive()
    except (OSError, anyio.EndOfStream, anyio.BrokenResourceError):
        return False
    return reply.endswith(b"+PONG\r\n")


def _quoted(text: str) -> str:
    """Quote for a configuration file and for an inline command, which share their syntax."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
