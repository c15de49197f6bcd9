from __future__ import annotations

import copy

import pytest

from asyncrl import errors
from asyncrl.errors import (
    AsyncRLError,
    BrokerUnavailable,
    ConfigError,
    EnvironmentFailure,
    Fenced,
    MissingExtraError,
    RolloutFailed,
    WaitTimeout,
    sole_cause,
)


def test_a_config_error_names_what_was_given_what_is_wrong_and_what_to_do():
    error = ConfigError("num_envs", "zero", "not a whole number", "give 1 or more")
    assert str(error) == "num_envs='zero': not a whole number; give 1 or more"
    assert (error.field, error.value, error.fix) == ("num_envs", "zero", "give 1 or more")


def test_a_missing_package_is_named_with_the_command_that_installs_it():
    error = MissingExtraError("torch", "learner", "learning")
    assert str(error).endswith("torch, which is not installed; run: pip install 'asyncrl[learner]'")
    assert (error.package, error.extra) == ("torch", "learner")


def test_an_environments_failure_carries_where_why_and_its_own_traceback():
    error = EnvironmentFailure("step 37 of environment 3", "ValueError: no", "Traceback ...")
    assert str(error) == "step 37 of environment 3: ValueError: no"
    again = copy.copy(error)
    assert (again.where, again.cause, again.traceback) == (
        "step 37 of environment 3",
        "ValueError: no",
        "Traceback ...",
    )
    assert again.seed is None
    seeded = copy.copy(EnvironmentFailure("reset", "ValueError: no", "", seed=5))
    assert (str(seeded), seeded.seed) == ("reset: ValueError: no", 5)


def test_a_failed_rollout_carries_the_traceback_of_its_last_attempt():
    assert RolloutFailed("three attempts failed", "Traceback ...").traceback == "Traceback ..."
    assert RolloutFailed("the actor died").traceback == ""


def test_a_wait_that_is_over_says_for_what_how_long_and_what_to_try():
    error = WaitTimeout("a result", 12.34, "start an actor")
    assert str(error) == "waited 12.3 s for a result; start an actor"
    assert (error.waited_for, error.seconds) == ("a result", 12.34)


def test_a_fenced_learner_learns_who_took_over():
    error = Fenced(3, 4, "host:123")
    assert "generation 3 of this run was taken over by host:123 (generation 4)" in str(error)
    assert (error.generation, error.newer, error.owner) == (3, 4, "host:123")
    assert "taken over (generation 4)" in str(Fenced(3, 4))


@pytest.mark.parametrize(
    ("error", "base"),
    [
        (ConfigError("a", 1, "b", "c"), ValueError),
        (MissingExtraError("a", "b", "c"), ImportError),
        (WaitTimeout("a", 1, "b"), TimeoutError),
        (BrokerUnavailable("a"), ConnectionError),
    ],
)
def test_errors_are_caught_as_ours_and_as_pythons(error: Exception, base: type[Exception]):
    assert isinstance(error, AsyncRLError)
    assert isinstance(error, base)


def test_the_tree_at_the_top_of_the_module_shows_every_error():
    drawn = errors.__doc__ or ""
    own = [each for each in vars(errors).values() if isinstance(each, type)]
    assert all(each.__name__ in drawn for each in own if issubclass(each, AsyncRLError))


def test_the_sole_cause_of_a_group_is_ours_before_what_it_made_fail():
    ours = ConfigError("a", 1, "b", "c")
    inner = BaseExceptionGroup("inner", [KeyError("consequence"), ours])
    assert sole_cause(BaseExceptionGroup("outer", [OSError("consequence"), inner])) is ours
    other = OSError("first")
    assert sole_cause(BaseExceptionGroup("outer", [other, KeyError("second")])) is other


def test_the_type_of_an_error_says_what_kind_it_is():
    """Wrong options, wrong calls, unusable data: only the first are for the user to mend."""
    for kind, builtin in (
        (errors.ConfigError, ValueError),
        (errors.StateError, RuntimeError),
        (errors.DataError, ValueError),
    ):
        assert issubclass(kind, AsyncRLError)
        assert issubclass(kind, builtin)
    assert issubclass(errors.WireError, errors.DataError)
    assert issubclass(errors.InvalidBatchError, errors.DataError)
    assert not issubclass(errors.DataError, ConfigError)
