"""``python -m asyncrl.broker runs`` and ``delete``: what is on a server, and to be rid of it."""

from __future__ import annotations

from collections.abc import Sequence

import anyio

from asyncrl.broker.runs import RunSummary, delete_run, list_runs
from asyncrl.cli.arguments import OptionGroup, parse_options
from asyncrl.cli.exits import ExitCode
from asyncrl.cli.options import DeleteOptions, RunsOptions
from asyncrl.errors import ConfigError

_HEADINGS = (
    "run", "state", "generation", "owner", "actors", "in flight", "waiting", "keys", "memory",
    "expires",
)  # fmt: skip
_MIB = 1024 * 1024


def show_runs(program: str, argv: Sequence[str]) -> int:
    """Print a table of the runs on a server."""
    (options,) = parse_options(
        f"python -m {program} runs",
        "List the runs on a server: their state, last learner, actors alive, jobs in flight, "
        "results waiting, keys and memory, and when they go by themselves.",
        [OptionGroup("server", RunsOptions)],
        argv,
    )
    runs = anyio.run(list_runs, options.url)
    rows = [_HEADINGS, *map(_row, runs)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows if runs else ():
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print("  ".join(cells).rstrip())
    if not runs:
        print("no runs")
    return ExitCode.OK


def remove_run(program: str, argv: Sequence[str]) -> int:
    """Delete one run from a server; say what that was."""
    if argv and not argv[0].startswith("-"):
        run, *rest = argv
    else:
        run, rest = "", argv
    (options,) = parse_options(
        f"python -m {program} delete RUN",
        "Remove a run from a server. One whose learner or actors are at work is refused.",
        [OptionGroup("server", DeleteOptions)],
        rest,
    )
    if not run:
        raise ConfigError("run", run, "no run is named", f"write python -m {program} delete RUN")

    async def delete() -> RunSummary:
        return await delete_run(options.url, run, force=options.force)

    was = anyio.run(delete)
    print(
        f"deleted run {was.name} ({was.state or 'of unknown state'}): {was.keys} keys, "
        f"{_size(was.nbytes)}, {_known(was.in_flight)} jobs in flight, "
        f"{_known(was.waiting)} results waiting"
    )
    return ExitCode.OK


def _row(run: RunSummary) -> tuple[str, ...]:
    expires = run.expires_seconds
    return (
        run.name,
        _known(run.state),
        _known(run.generation),
        _known(run.owner),
        _known(run.actors),
        _known(run.in_flight),
        _known(run.waiting),
        str(run.keys),
        _size(run.nbytes),
        "never" if expires is None else f"in {expires:.0f} s",
    )


def _known(value: object) -> str:
    return "?" if value is None else str(value)


def _size(nbytes: int | None) -> str:
    return "? MiB" if nbytes is None else f"{nbytes / _MIB:.1f} MiB"
