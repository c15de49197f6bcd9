from __future__ import annotations

import subprocess
import sys

import pytest

import asyncrl
from asyncrl.errors import AsyncRLError

ABSENT_TORCH = """
import sys
sys.modules["torch"] = None  # how an import of it fails where it is not installed
import asyncrl
try:
    asyncrl.{name}
except asyncrl.MissingExtraError as error:
    print(error)
"""


def run_python(code: str) -> str:
    return subprocess.check_output([sys.executable, "-c", code], text=True)


def test_the_public_names_are_sorted_and_unique() -> None:
    def order(name: str) -> tuple[bool, bool, str]:
        """Acronyms, classes, functions; each by name."""
        return not name.isupper(), not name[0].isupper(), name

    assert asyncrl.__all__ == sorted(set(asyncrl.__all__), key=order)


@pytest.mark.parametrize("name", asyncrl.__all__)
def test_every_public_name_can_be_imported(name: str) -> None:
    value = getattr(asyncrl, name)
    assert value.__name__ == name
    assert name in dir(asyncrl)


def test_every_error_is_public() -> None:
    errors = {AsyncRLError}
    while more := {child for error in errors for child in error.__subclasses__()} - errors:
        errors |= more
    own = {error.__name__ for error in errors if error.__module__ == "asyncrl.errors"}
    assert own <= set(asyncrl.__all__)


def test_importing_the_package_imports_no_heavy_library() -> None:
    heavy = "{'torch', 'redis', 'gymnasium', 'numpy', 'anyio', 'msgpack', 'rich'}"
    code = f"import sys, asyncrl; print({heavy} & set(sys.modules))"
    assert run_python(code).strip() == "set()"


@pytest.mark.parametrize("names", ["Actor, ActorWorker, Trajectory", "ActorProxy, connect"])
def test_the_acting_side_never_imports_torch(names: str) -> None:
    code = f"import sys; from asyncrl import {names}; print('torch' in sys.modules)"
    assert run_python(code).strip() == "False"


@pytest.mark.parametrize("name", ["PPO", "DQN"])
def test_missing_torch_names_the_extra_to_install(name: str) -> None:
    told = run_python(ABSENT_TORCH.format(name=name))
    assert "pip install 'asyncrl[learner]'" in told


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = asyncrl.Nothing  # pyright: ignore[reportAttributeAccessIssue, reportUnknownVariableType]
