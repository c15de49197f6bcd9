"""A child process that cannot outlive us, and a private folder that cannot either."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from asyncrl.broker.server_config import FOLDER_PREFIX
from asyncrl.errors import ConfigError, EmbeddedServerError

SOCKET_PATH_LIMIT = 107 if sys.platform == "linux" else 103
"""Bytes a unix socket's path may have (``sun_path`` without its closing zero)."""

_LOCK = "lock"
_LOG_TAIL_BYTES = 2000

# Runs in the child after fork and exec, so that no Python runs between the two (unsafe with
# threads): asks the kernel to kill this process when the thread that started it ends, then becomes
# the server. 1 is PR_SET_PDEATHSIG, 9 is SIGKILL.
_LAUNCHER = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, 9, 0, 0, 0)
if os.getppid() != int(sys.argv[1]):
    os._exit(1)
os.execv(sys.argv[2], sys.argv[2:])
"""

# Where the kernel has no such offer: a shell waits for its standard input, a pipe of ours, to end.
_WATCHER = 'read -r _; kill -9 "$1"'


class ServerProcess:
    """A running server. It gets no Ctrl-C of ours, and is killed when we die, however we do.

    On Linux the kernel kills it when the *thread* that made this object ends, so make it in one
    that lasts as long as the server; elsewhere a watching shell does when this process ends.
    """

    def __init__(self, argv: Sequence[str], folder: Path, log_path: Path) -> None:
        kernel_guard = sys.platform == "linux" and bool(sys.executable)
        if kernel_guard:
            launcher = [sys.executable, "-I", "-S", "-c", _LAUNCHER, str(os.getpid())]
            argv = [*launcher, *argv]
        with log_path.open("ab") as log:  # a file, because a full pipe would hang the server
            log_path.chmod(0o600)
            self._process = subprocess.Popen(  # noqa: S603 - a binary found or configured
                argv,
                cwd=folder,
                env=os.environ | {"LC_ALL": "C"},  # it refuses to start under a locale it lacks
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._watcher: subprocess.Popen[bytes] | None = None
        if not kernel_guard:
            self._watcher = subprocess.Popen(  # noqa: S603 - a fixed script
                ["/bin/sh", "-c", _WATCHER, "sh", str(self.pid)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """Process id of the server."""
        return self._process.pid

    def exit_status(self) -> str | None:
        """Return how the server ended, in words, or None while it runs."""
        code = self._process.poll()
        if code is None:
            return None
        if code >= 0:
            return f"exited with code {code}"
        with contextlib.suppress(ValueError):
            return f"was killed by {signal.Signals(-code).name}"
        return f"was killed by signal {-code}"

    def terminate(self) -> None:
        """Ask the server to stop (SIGTERM)."""
        self._process.terminate()

    def kill(self) -> None:
        """End the server at once (SIGKILL) and reap it and its watcher. May be called again."""
        self._process.kill()
        self._process.wait()
        if self._watcher is not None:
            self._watcher.kill()
            self._watcher.communicate()
            self._watcher = None


class PrivateFolder:
    """A temporary folder only we may enter (mode 700), with a path short enough for a socket in it.

    A lock held for as long as this process lives tells other processes that the folder is in use;
    making a new one removes those whose process was killed before it could.
    """

    def __init__(self, *, socket_name: str) -> None:
        base = _short_base(socket_name)
        _sweep(base)
        self.path = Path(tempfile.mkdtemp(prefix=FOLDER_PREFIX, dir=base))
        new = self.path / f"{_LOCK}.new"
        self._lock = _locked(new)
        # Renamed only once it is held, so that a lock which can be had is always an abandoned one.
        new.rename(self.path / _LOCK)

    def remove(self) -> None:
        """Delete the folder and all in it. May be called again."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


class DataFolder:
    """A folder that keeps a server's data between starts, used by one server at a time.

    Raises:
        EmbeddedServerError: Another server uses it.
    """

    def __init__(self, path: Path) -> None:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.path = path.resolve()
        try:
            self._lock = _locked(self.path / _LOCK)
        except BlockingIOError:
            raise EmbeddedServerError(
                f"{self.path} is in use by another server; stop that one or choose another data_dir"
            ) from None

    def release(self) -> None:
        """Let others use the folder. May be called again."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def log_tail(log: Path) -> str:
    """Return the end of a log, or "" if it cannot be read."""
    try:
        return log.read_bytes()[-_LOG_TAIL_BYTES:].decode(errors="replace").strip()
    except OSError:
        return ""


def kept_copy(log: Path) -> Path:
    """Copy a log to where it outlives its folder; return the copy, or `log` if that fails."""
    try:
        descriptor, name = tempfile.mkstemp(prefix="asyncrl-", suffix="-server.log")
        os.close(descriptor)
        return Path(shutil.copyfile(log, name))
    except OSError:
        return log


def _short_base(socket_name: str) -> Path:
    room = len(f"/{FOLDER_PREFIX}12345678/{socket_name}")
    bases = [Path(tempfile.gettempdir()), Path("/tmp")]  # noqa: S108 - mkdtemp makes it private
    for base in bases:
        if len(os.fsencode(base)) + room <= SOCKET_PATH_LIMIT and base.is_dir():
            return base
    raise ConfigError(
        "TMPDIR",
        str(bases[0]),
        f"a socket in it would have a path of more than {SOCKET_PATH_LIMIT} bytes",
        f"set TMPDIR to a folder whose path has at most {SOCKET_PATH_LIMIT - room} bytes",
    )


def _locked(path: Path) -> int:
    """Create and lock a file, return its descriptor; `BlockingIOError` if another holds it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _sweep(base: Path) -> None:
    for folder in base.glob(f"{FOLDER_PREFIX}*"):
        with contextlib.suppress(OSError):
            descriptor = os.open(folder / _LOCK, os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(descriptor)
