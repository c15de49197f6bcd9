"""What a benchmark prints: one JSON line a result, with what is needed to judge it."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


@cache
def surroundings() -> dict[str, Any]:
    """Return commit and machine, the same for every result of a process."""
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"],  # noqa: S607 - git from PATH, as everywhere
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return {
        "commit": commit.stdout.strip() or "unknown",
        "machine": f"{_processor()}, {os.cpu_count()} cores, {platform.system()}",
        "python": platform.python_version(),
    }


def emit(benchmark: str, **facts: Any) -> None:
    """Print one result as a JSON line."""
    print(json.dumps({"benchmark": benchmark, **facts, **surroundings()}), flush=True)


def load() -> float:
    """Return how many processes have wanted a core in the last minute: 0 on an idle machine."""
    return round(os.getloadavg()[0], 2)


def _processor() -> str:
    """Return the model of the processor, or at least its architecture."""
    facts = Path("/proc/cpuinfo")
    lines = facts.read_text().splitlines() if facts.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or platform.machine()
