from __future__ import annotations

import pytest

from asyncrl.cli.algorithms import choose
from asyncrl.errors import ConfigError
from asyncrl.learner import OffPolicyConfig, OnPolicyConfig


def test_a_round_has_a_job_for_every_local_actor():
    chosen = choose(["--actors", "5"]).learner
    assert isinstance(chosen, OnPolicyConfig)
    assert chosen.jobs_per_round == 5


def test_without_local_actors_the_preset_says():
    chosen = choose(["--actors", "0"]).learner
    assert isinstance(chosen, OnPolicyConfig)
    assert chosen.jobs_per_round == 2


def test_an_environment_without_preset_gets_the_algorithms_defaults():
    from asyncrl.algorithms import DQN

    chosen = choose(["--algo", "dqn", "--env", "Acrobot-v1"])
    assert chosen.algorithm == DQN()
    assert isinstance(chosen.learner, OffPolicyConfig)


def test_an_unknown_algorithm_is_refused_with_the_known_ones():
    with pytest.raises(ConfigError, match=r"algo.*ppo, dqn"):
        choose(["--algo", "sarsa"])
