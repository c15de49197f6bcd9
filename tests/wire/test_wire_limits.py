from __future__ import annotations

import dataclasses

import pytest

from asyncrl.errors import ConfigError
from asyncrl.wire import CHECKPOINT_LIMITS, DEFAULT_LIMITS, WEIGHT_LIMITS, WireLimits


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(WireLimits)])
def test_every_limit_must_let_something_through(name: str):
    with pytest.raises(ConfigError, match=f"{name}=0: not positive; give 1 or more") as caught:
        WireLimits(**{name: 0})
    assert caught.value.field == name


def test_only_our_own_files_may_hold_more_entries_than_a_message():
    """Weights come over the network as well: large arrays, but no more of them."""
    entries = ("max_depth", "max_items", "max_arrays", "max_text")
    for name in entries:
        assert getattr(WEIGHT_LIMITS, name) == getattr(DEFAULT_LIMITS, name)
        assert getattr(CHECKPOINT_LIMITS, name) > getattr(DEFAULT_LIMITS, name)
    assert DEFAULT_LIMITS.max_bytes < WEIGHT_LIMITS.max_bytes < CHECKPOINT_LIMITS.max_bytes
