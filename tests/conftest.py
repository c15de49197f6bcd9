"""Fixtures for tests that run whole programs."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest


@dataclass(frozen=True)
class Workplace:
    """An empty folder to run programs in, with a folder of its own for temporary files."""

    path: Path
    temporary: Path
    environment: dict[str, str] = field(default_factory=dict[str, str])

    def run(
        self, command: Sequence[str | Path], *, timeout: float = 50.0
    ) -> subprocess.CompletedProcess[str]:
        """Run a program to its end here; fail the test when it does not end with code 0."""
        done = subprocess.run(
            [str(part) for part in command],
            cwd=self.path,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        assert done.returncode == 0, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def left_behind(self) -> list[str]:
        """Return what still runs here, and temporary files that still lie about."""
        running = [process.name() for process in psutil.process_iter() if self._is_here(process)]
        return running + [path.name for path in self.temporary.iterdir()]

    def _is_here(self, process: psutil.Process) -> bool:
        try:
            cwd = Path(process.cwd())
            here = cwd == self.path or cwd.is_relative_to(self.temporary)
            return here and process.status() != psutil.STATUS_ZOMBIE
        except psutil.Error:
            return False


@pytest.fixture
def workplace(tmp_path: Path) -> Iterator[Workplace]:
    """A place to run programs as a user does, which they must leave as clean as they found it."""
    environment = dict(os.environ) | {"OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    environment.pop("ASYNCRL_REDIS_URL", None)
    with tempfile.TemporaryDirectory(prefix="t") as temporary:  # short, as socket paths must be
        place = Workplace(tmp_path, Path(temporary), environment | {"TMPDIR": temporary})
        yield place
        assert place.left_behind() == []


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Let torch use one thread: small networks are fastest so, and results do not depend on it."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
