"""``python -m asyncrl.broker``: a server for runs whose learner and actors are started by hand.

With a subcommand it looks after the runs on a server instead: ``runs`` and ``delete``.
"""

from __future__ import annotations

import secrets
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import anyio

from asyncrl.broker.embedded import EmbeddedServer
from asyncrl.cli.arguments import OptionGroup, parse_options
from asyncrl.cli.exits import ExitCode, run_main
from asyncrl.cli.options import ServerOptions
from asyncrl.cli.runs import remove_run, show_runs
from asyncrl.cli.stopping import on_signals
from asyncrl.errors import ConfigError
from asyncrl.metrics import configure_logging

PROGRAM = "asyncrl.broker"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the bundled server until a signal, or a subcommand; return the exit code."""
    return run_main(lambda _: _main(sys.argv[1:] if argv is None else argv), PROGRAM)


def _main(argv: Sequence[str]) -> int:
    if not argv or argv[0].startswith("-"):
        return _run_server(argv)
    command, *rest = argv
    if command not in _COMMANDS:
        raise ConfigError(
            "command",
            command,
            "no such command",
            f"give {' or '.join(_COMMANDS)}, or none to start a server",
        )
    return _COMMANDS[command](PROGRAM, rest)


_COMMANDS = {"runs": show_runs, "delete": remove_run}


def _run_server(argv: Sequence[str]) -> int:
    (options,) = parse_options(
        f"python -m {PROGRAM}",
        "Start the bundled server on a TCP port with a generated password, print its URL, and run "
        "until Ctrl-C. Any other Redis 6.2+ or Valkey server does as well. "
        "'runs' lists the runs on a server, and 'delete RUN' removes one; see their own --help.",
        [OptionGroup("server", ServerOptions)],
        argv,
    )
    configure_logging("info", sys.stderr)
    anyio.run(_serve, options)
    return ExitCode.OK


async def _serve(options: ServerOptions) -> None:
    data = None if options.data is None else Path(options.data)
    server = EmbeddedServer(
        tcp_port=options.port,
        host=options.host,
        password=None if data is None else kept_password(data),
        appendonly=data is not None,
        data_dir=data,
    )
    async with server, anyio.create_task_group() as tasks:

        def stop(_: signal.Signals) -> None:
            tasks.cancel_scope.cancel()

        tasks.start_soon(on_signals, stop)
        if options.url_file is not None:
            write_secret(Path(options.url_file), server.tcp_url)
        print(server.tcp_url, flush=True)
        await server.watch()


def kept_password(data: Path) -> str:
    """Return the password kept beside the data, so that a URL is good over restarts."""
    file = data / "password"
    if not file.exists():
        data.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_secret(file, secrets.token_urlsafe(24))
    return file.read_text().strip()


def write_secret(path: Path, text: str) -> None:
    """Write `text` to a file that only its owner may read."""
    path.touch(mode=0o600)
    path.chmod(0o600)
    path.write_text(text + "\n")
