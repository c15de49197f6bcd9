"""Results of one or two files side by side: median and range, and the ratio of the medians.

Each file holds the JSON lines that a benchmark printed. One line of text for each algorithm and
measure, ready for a Markdown table.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

MEASURES = ("env_steps", "seconds", "training_seconds")
"""What is compared, over the seeds that were solved."""

Results = dict[tuple[str, str], list[dict[str, Any]]]
"""(benchmark, algorithm) -> its results."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("before", type=Path, help="file of results")
    parser.add_argument("after", type=Path, nargs="?", help="another one to compare it with")


def run(options: argparse.Namespace) -> bool:
    """Print the table."""
    files = [options.before] if options.after is None else [options.before, options.after]
    results = [_read(path) for path in files]
    titles = ["benchmark", "algo", "measure", *(path.stem for path in files)]
    rows = [titles + ["ratio"] * (len(files) - 1), ["---"] * (2 + 2 * len(files))]
    for benchmark, algo in dict.fromkeys(key for each in results for key in each):
        groups = [each.get((benchmark, algo), []) for each in results]
        rows.append([benchmark, algo, "solved", *map(_solved, groups)] + [""] * (len(files) - 1))
        rows += [[benchmark, algo, name, *_measured(name, groups)] for name in MEASURES]
    for row in rows:
        print(f"| {' | '.join(row)} |")
    return True


def _read(path: Path) -> Results:
    results: Results = {}
    for line in path.read_text().splitlines():
        record = json.loads(line)
        results.setdefault((record["benchmark"], record["algo"]), []).append(record)
    return results


def _solved(group: Sequence[dict[str, Any]]) -> str:
    return f"{sum(record['solved'] for record in group)} of {len(group)}"


def _measured(name: str, groups: Sequence[Sequence[dict[str, Any]]]) -> list[str]:
    """Return "median (least to most)" of each group, and the second median over the first."""
    columns = [[record[name] for record in group if record["solved"]] for group in groups]
    cells = [
        f"{_text(median(each))} ({_text(min(each))} to {_text(max(each))})" if each else "-"
        for each in columns
    ]
    if len(columns) == 2:
        cells.append(f"{median(columns[1]) / median(columns[0]):.2f}" if all(columns) else "-")
    return cells


def _text(number: float) -> str:
    return f"{number:,.0f}" if number >= 1000 else f"{number:.1f}"
