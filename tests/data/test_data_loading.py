"""What a worker imports by path, how far, and what it says when it cannot."""

from __future__ import annotations

import os.path
from pathlib import Path

import pytest

from asyncrl.data import Allowed, EnvSpec, load_object, modules_needed, named_modules
from asyncrl.errors import ConfigError, NotAllowed


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


# -- what may be named -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("modules", "path", "passes"),
    [
        (("house",), "house:Env", True),
        (("house",), "house.envs:Env", True),
        (("house",), "house.envs.old:Env", True),
        (("house",), "houses:Env", False),
        (("house",), "house_2:Env", False),
        (("house",), "hous:Env", False),
        (("house",), "my.house:Env", False),
        (("house",), ".house:Env", False),
        (("house",), "House:Env", False),
        (("house",), " house:Env", False),
        (("house",), ":Env", False),
        (("house.envs",), "house.envs:Env", True),
        (("house.envs",), "house.envs.old:Env", True),
        (("house.envs",), "house:envs.Env", False),
        (("house.envs",), "house.envs_2:Env", False),
        (("car", "house"), "house:Env", True),
        (("house",), "house:Env-v0", True),
        (("house",), "os:Env-v0", False),
        ((), "os:system", False),
        ((), "house:Env", False),
        ((), "CartPole-v1", True),
        ((), "phys2d/CartPole-v1", True),
        (None, "os:system", True),
    ],
)
def test_a_module_allows_itself_and_what_is_below_it(
    modules: tuple[str, ...] | None, path: str, passes: bool
):
    allowed = Allowed(modules)
    for spec in (EnvSpec(env=path), EnvSpec(env="CartPole-v1", trajectory=path)):
        if passes:
            allowed.check(spec)
        else:
            with pytest.raises(NotAllowed, match=r"start the actor with --allow"):
                allowed.check(spec)


@pytest.mark.parametrize(
    "env", ["GymV21Environment-v0", "GymV26Environment", "shim:GymV26Environment-v0"]
)
def test_an_id_of_the_old_gym_package_is_one_more_path(env: str):
    """Shimmy's environments pass it to `gym.make`, which imports the module that it names."""
    allowed = Allowed(("shim",))
    spec = EnvSpec(env=env, kwargs={"env_id": "os:House-v0"})
    with pytest.raises(NotAllowed, match=r"env_id='os:House-v0'.*--allow os "):
        allowed.check(spec)
    allowed.check(EnvSpec(env=env, kwargs={"env_id": "House-v0"}))
    assert named_modules(spec) == tuple(dict.fromkeys([*env.split(":")[:-1], "os"]))


@pytest.mark.parametrize("modules", ["", "house.", ".house", "house:Env", "a b", "house..envs"])
def test_what_is_not_the_name_of_a_module_cannot_be_allowed(modules: str):
    with pytest.raises(ConfigError, match=r"allow=.*such as house or house\.envs"):
        Allowed((modules,))


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package that re-exports its own and others' things, as packages do."""
    package = tmp_path / "my_house"
    package.mkdir()
    (package / "__init__.py").write_text(HOUSE)
    (package / "impl.py").write_text(IMPL)
    (tmp_path / "my_library.py").write_text("class Room: pass\ndef rent(): pass\n")
    monkeypatch.syspath_prepend(tmp_path)


HOUSE = """
import functools, json, logging, os
import os.path as where
from os import system
import my_library
from my_library import Room
from my_house import impl
from my_house.impl import Env, Made, make
small = functools.partial(functools.partial(Env, size=2), size=3)
command = functools.partial(system, "true")
log = logging.getLogger(__name__)
settings = {"a": 1}
anonymous = lambda: Env()
@functools.lru_cache
def cached(): pass
class Flat(Room): pass
"""
IMPL = """
import os
class Env:
    run = os.system
    class Inner: pass
    def __init__(self, size=1): pass
    @classmethod
    def tiny(cls): pass
    def __call__(self): pass
Made = Env()
def make(): pass
"""
OWN = [
    "Env",
    "impl.Env",
    "impl.make",
    "make",
    "Made",
    "Env.Inner",
    "Env.tiny",
    "small",
    "anonymous",
    "cached",
    "Flat",
    "impl",
]
FOREIGN = {
    "os": "os",
    "os.system": "os",
    "where.join": os.path.__name__,
    "system": os.name,
    "command": os.name,
    "Env.run": os.name,
    "impl.os.system": "os",
    "json.loads": "json",
    "functools.partial": "functools",
    "my_library": "my_library",
    "my_library.rent": "my_library",
    "Room": "my_library",
    "log.info": "logging",
    "__loader__.load_module": "_frozen_importlib_external",
    "__spec__.loader": "_frozen_importlib",
    "Env.__class__": "builtins",
}
UNTOLD = [
    "settings.get",
    "__builtins__",
    "__name__",
    "Env.__init__.__globals__",
    "make.__globals__.get",
    "make.__code__",
    "Env.__subclasses__",
    "Env.__new__",
    "Env.__getattribute__",
    "make.__call__",
]


@pytest.mark.usefixtures("house")
@pytest.mark.parametrize("attr", OWN)
def test_what_an_allowed_package_defines_is_reached_from_wherever_it_shows_it(attr: str):
    load_object(f"my_house:{attr}", "env", Allowed(("my_house",)))


@pytest.mark.usefixtures("house")
@pytest.mark.parametrize("attr", FOREIGN)
def test_an_allowed_module_is_no_way_to_what_it_imported(attr: str):
    home = FOREIGN[attr]
    with pytest.raises(NotAllowed) as refused:
        load_object(f"my_house:{attr}", "env", Allowed(("my_house",)))
    assert f"env='my_house:{attr}': it leads to module '{home}'" in str(refused.value)
    assert f"start the actor with --allow {home} as well" in refused.value.fix
    assert refused.value.module == home


@pytest.mark.usefixtures("house")
@pytest.mark.parametrize("attr", UNTOLD)
def test_what_no_module_owns_is_refused_whatever_is_allowed(attr: str):
    with pytest.raises(NotAllowed, match="no module says that it defines it") as refused:
        load_object(f"my_house:{attr}", "env", Allowed(("my_house", "builtins")))
    assert refused.value.module is None


@pytest.mark.usefixtures("house")
def test_a_reexport_is_reached_where_its_own_module_is_allowed_as_well():
    both = Allowed(("my_house", "my_library"))
    assert load_object("my_house:Room", "env", both).__name__ == "Room"


@pytest.mark.usefixtures("house")
@pytest.mark.parametrize(
    ("spec", "named", "more"),
    [
        (EnvSpec(env="CartPole-v1"), (), ()),
        (EnvSpec(env="my_house:Env", trajectory="my_house:make"), ("my_house",), ()),
        (EnvSpec(env="my_house.impl:Env"), ("my_house.impl",), ()),
        (EnvSpec(env="my_house:Name-v0"), ("my_house",), ()),
        (EnvSpec(env="my_house:my_library.Room"), ("my_house",), ("my_library",)),
        (EnvSpec(env="CartPole-v1", trajectory="my_house:Room"), ("my_house",), ("my_library",)),
        (EnvSpec(env="my_house:settings.get"), ("my_house",), ()),
    ],
)
def test_what_a_program_was_told_to_make_says_what_its_actors_need(
    spec: EnvSpec, named: tuple[str, ...], more: tuple[str, ...]
):
    assert named_modules(spec) == named
    assert modules_needed(spec) == (*named, *more)
