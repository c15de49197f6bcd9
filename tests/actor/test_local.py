"""The local actor is a collector like the remote one."""

from __future__ import annotations

import pytest

from asyncrl.actor import Actor
from asyncrl.errors import ConfigError
from asyncrl.proxy import import_path


def test_an_environment_without_a_name_is_refused_with_what_to_do():
    with pytest.raises(ConfigError, match="top level of a module"):
        Actor(lambda: None)


def test_a_class_is_named_by_where_it_can_be_imported_from():
    assert import_path(Actor, "env") == "asyncrl.actor.local:Actor"
    assert import_path("CartPole-v1", "env") == "CartPole-v1"
    assert Actor("CartPole-v1", envs=3).env.num_envs == 3
