"""Each example does what it says, and cleans up after itself."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.conftest import Workplace

pytestmark = pytest.mark.e2e

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def test_learner_and_actors_run_inside_an_application(workplace: Workplace):
    output = workplace.run([sys.executable, EXAMPLES / "embed.py", "2048"]).stdout
    assert re.search(r"^2048 steps, mean return \d+\.\d$", output, re.MULTILINE)
    assert "the application goes on" in output
    assert "results: 8 accepted = 8 trained + 0 dropped + 0 waiting: balanced" in output


def test_a_scenario_of_ones_own_is_learned(workplace: Workplace):
    output = workplace.run([sys.executable, EXAMPLES / "custom_env.py", "8000"]).stdout
    returns = [float(line.rpartition(" ")[2]) for line in output.splitlines()]
    assert returns[-1] > returns[0] / 2  # both are negative: at most half as uncomfortable


def test_a_scenario_of_ones_own_is_learned_over_actor_processes(workplace: Workplace):
    (workplace.path / "custom_env.py").symlink_to(EXAMPLES / "custom_env.py")
    command = [sys.executable, "-m", "asyncrl.learner", "--env", "custom_env:Thermostat"]
    command += ["--trajectory", "custom_env:Comfort", "--episodes-per-job", "8"]
    documented = " ".join((EXAMPLES / "custom_env.py").read_text().replace("\\\n", "").split())
    assert " ".join(["python", *command[1:]]) in documented
    command += ["--actors", "1", "--total-steps", "1500", "--run", "comfort"]
    assert "results in runs/comfort" in workplace.run(command).stdout


def test_server_actors_and_learner_meet_as_in_separate_terminals(workplace: Workplace):
    workplace.environment.update(PYTHON=sys.executable, RUN="apart")
    script = EXAMPLES / "separate_terminals.sh"
    done = workplace.run(["bash", script, "--total-steps", "4000", "--rollout-steps", "32"])
    assert "run apart used up its steps" in done.stdout
    assert re.search(r"actor \S+ joined \(2 alive\)", done.stdout)
    assert "redis://" not in done.stdout + done.stderr  # nor a password
    assert (workplace.path / "runs" / "apart" / "metrics.jsonl").is_file()
