"""Run a benchmark: ``python -m benchmarks cartpole --algo ppo --seeds 1 2 3``."""

from __future__ import annotations

import argparse
import sys

from benchmarks import cartpole

BENCHMARKS = {"cartpole": cartpole}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    commands = parser.add_subparsers(dest="benchmark", required=True)
    for name, module in BENCHMARKS.items():
        summary = (module.__doc__ or name).splitlines()[0]
        module.add_arguments(commands.add_parser(name, help=summary, description=module.__doc__))
    options = parser.parse_args()
    return 0 if BENCHMARKS[options.benchmark].run(options) else 3


if __name__ == "__main__":
    sys.exit(main())
