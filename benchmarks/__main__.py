"""Run a benchmark: ``python -m benchmarks cartpole --algo ppo --seeds 1 2 3``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from benchmarks import cartpole, compare, learning

COMMANDS = {"cartpole": cartpole, "compare": compare, "learning": learning}


def parser() -> argparse.ArgumentParser:
    """Return the parser of all benchmarks."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, module in COMMANDS.items():
        summary = (module.__doc__ or name).splitlines()[0]
        module.add_arguments(commands.add_parser(name, help=summary, description=module.__doc__))
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run what is asked for; return 0, or 3 when a benchmark's target was missed."""
    options = parser().parse_args(argv)
    return 0 if COMMANDS[options.command].run(options) else 3


if __name__ == "__main__":
    sys.exit(main())
