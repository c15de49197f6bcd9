"""What a worker imports by path, and what it says when it cannot."""

from __future__ import annotations

import os.path
from pathlib import Path

import pytest

from asyncrl.data import load_object
from asyncrl.errors import ConfigError


def test_an_object_is_found_by_its_import_path():
    assert load_object("os:path.join", "env") is os.path.join
    assert load_object("os.path:join", "env") is os.path.join


def test_the_users_own_module_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "my_scenarios_ok.py").write_text("class Mine:\n    Inner = 3\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert load_object("my_scenarios_ok:Mine", "env").__name__ == "Mine"
    assert load_object("my_scenarios_ok:Mine.Inner", "env") == 3


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("", "env='': not an import path; write it as package.module:attr"),
        ("os", "env='os': not an import path"),
        ("os:", "env='os:': not an import path"),
        (":join", "env=':join': not an import path"),
        (".os:path", "env='.os:path': a relative import path; begin with the package's name"),
        (
            "no_such_package_here.inner:attr",
            "there is no module 'no_such_package_here'; check the spelling and PYTHONPATH on this",
        ),
        ("os.no_such_module:attr", "there is no module 'os.no_such_module'"),
        ("os:no_such_name", "os has no attribute 'no_such_name'; check the spelling"),
        ("os:path.no_such_name", "os has no attribute 'path.no_such_name'"),
    ],
)
def test_what_cannot_be_found_is_named_with_what_to_do(path: str, problem: str):
    with pytest.raises(ConfigError) as caught:
        load_object(path, "env")
    assert problem in str(caught.value)
    assert caught.value.field == "env"


def test_what_the_users_module_itself_lacks_is_not_hidden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "my_scenarios_broken.py").write_text("import no_such_dependency_here\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError) as caught:
        load_object("my_scenarios_broken:Mine", "env")
    assert caught.value.name == "no_such_dependency_here"
    assert not isinstance(caught.value, ConfigError)


def test_an_error_in_the_users_module_keeps_its_own_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "my_scenarios_raise.py").write_text("raise RuntimeError('the user said so')\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(RuntimeError, match="the user said so"):
        load_object("my_scenarios_raise:Mine", "env")
