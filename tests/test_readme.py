"""What the README shows works: programs run, commands and options exist, files load."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import asyncrl.cli.actor
import asyncrl.cli.learner
import asyncrl.cli.runs
import asyncrl.cli.server
from asyncrl.cli.arguments import parse_options
from asyncrl.cli.exits import ExitCode
from asyncrl.cli.options import URL_VARIABLE
from benchmarks.__main__ import parser as benchmark_parser

if TYPE_CHECKING:
    from tests.conftest import Workplace

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
README = (ROOT / "README.md").read_text()
BLOCKS: list[tuple[str, str]] = re.findall(
    r"^```(\w*)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL
)
PROSE = re.sub(r"^```.*?^```$", "", README, flags=re.MULTILINE | re.DOTALL)
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(language: str) -> list[str]:
    return [text for found, text in BLOCKS if found == language]


def command_lines() -> list[str]:
    """Return every command of the shell blocks, and those that stand inside sentences."""
    shown = [line for block in blocks("shell") for line in block.splitlines() if line.strip()]
    quoted = re.findall(r"`((?:make|pip|python -m)\s[^`]+)`", PROSE)
    return [line.partition("  #")[0].partition(" >")[0].strip() for line in shown] + quoted


def test_every_block_is_of_a_kind_that_is_checked():
    kinds = {language for language, _ in BLOCKS}
    assert kinds == {"python", "shell", "text", "toml"}
    assert README.count("```") == 2 * len(BLOCKS)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path):
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text())
    missing = [link for link in links if "://" not in link and not (page.parent / link).exists()]
    assert missing == []


def test_exit_codes_are_those_of_the_commands():
    rows = re.findall(r"^\| ([\d, ]+) \|", README, re.MULTILINE)
    assert {int(code) for row in rows for code in row.split(",")} == set(ExitCode)


def test_extras_are_those_of_the_package():
    rows = re.findall(r"^\| `(\w+)` \|", README, re.MULTILINE)
    assert rows == list(PROJECT["optional-dependencies"])


# -- programs ------------------------------------------------------------------------------------


@pytest.mark.e2e
@pytest.mark.parametrize("text", blocks("python"), ids=["embedded", "local", "scenario"])
def test_a_program_runs(workplace: Workplace, text: str):
    text, cut = re.subn(r"total_steps=[\d_]+", "total_steps=3_000", text)
    assert cut == 1
    program = workplace.path / "program.py"
    program.write_text(text)
    assert re.search(r"\b3\d\d\d\b", workplace.run([sys.executable, program]).stdout)


# -- commands ------------------------------------------------------------------------------------

MODULES = {
    module.PROGRAM: module
    for module in (asyncrl.cli.actor, asyncrl.cli.learner, asyncrl.cli.server)
}


class Understood(Exception):
    """The options were read without an error; what follows would start."""


def understand(
    monkeypatch: pytest.MonkeyPatch, program: str, arguments: Sequence[str]
) -> tuple[Any, ...]:
    """Read the options of a command with its own parser, and return them."""
    read: list[tuple[Any, ...]] = []

    def parse(*given: Any) -> None:
        read.append(parse_options(*given))
        raise Understood

    if "--listen" in arguments:
        monkeypatch.delenv(URL_VARIABLE, raising=False)
    else:
        monkeypatch.setenv(URL_VARIABLE, "redis://localhost")
    for module in (MODULES[program], asyncrl.cli.runs):  # a server's subcommands are there
        monkeypatch.setattr(module, "parse_options", parse)
    with pytest.raises(Understood):
        MODULES[program].main(arguments)
    return read[0]


def check_make(arguments: Sequence[str]) -> None:
    done = subprocess.run(["make", "-n", *arguments], cwd=ROOT, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


def check_pip(arguments: Sequence[str]) -> None:
    extras = re.fullmatch(r"\.(?:\[([\w,]+)\])?", arguments[-1])
    assert extras is not None, arguments
    assert not extras[1] or set(extras[1].split(",")) <= set(PROJECT["optional-dependencies"])
    assert "-c" not in arguments or (ROOT / arguments[arguments.index("-c") + 1]).is_file()


@pytest.mark.parametrize("line", command_lines())
def test_a_command_is_understood(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "acrobot.toml").write_text(blocks("toml")[0])
    match shlex.split(line):
        case ["make", *arguments]:
            check_make(arguments)
        case ["pip", "install", *arguments]:
            check_pip(arguments)
        case ["python", "-m", "benchmarks", *arguments]:
            benchmark_parser().parse_args(arguments)
        case ["python", "-m", program] | ["python", "-m", program, "--help"]:
            assert program in MODULES
        case ["python", "-m", program, *arguments]:
            monkeypatch.chdir(tmp_path)
            understand(monkeypatch, program, arguments)
        case ["export", setting]:
            assert setting.startswith(f"{URL_VARIABLE}=rediss://")
        case ["cat", "runs/cartpole/redis.url"]:
            pass
        case unknown:
            pytest.fail(f"no check for {unknown}")


def test_options_named_in_sentences_exist(capsys: pytest.CaptureFixture[str]):
    for module in MODULES.values():
        with pytest.raises(SystemExit):
            module.main(["--help"])
    known = set(re.findall(r"--[a-z][a-z-]+", capsys.readouterr().out))
    assert set(re.findall(r"(?<![-\w])--[a-z][a-z-]+", PROSE)) <= known


def test_the_file_of_options_sets_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (text,) = blocks("toml")
    file = tmp_path / "acrobot.toml"
    file.write_text(text)
    options, algorithm, learner, *_ = understand(
        monkeypatch, "asyncrl.learner", ["--config", str(file)]
    )
    assert (options.env, options.actors) == ("Acrobot-v1", 4)
    assert (str(algorithm.learning_rate), algorithm.hidden) == ("linear:0.001:0", (64, 64))
    assert (learner.total_steps, learner.eval_interval) == (500_000, 50_000)
    assert learner.stop_return == -100
