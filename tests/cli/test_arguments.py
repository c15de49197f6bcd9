from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal, Self

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncrl.cli.arguments import OptionGroup, parse_options, peek_options
from asyncrl.cli.values import from_text, to_text
from asyncrl.errors import ConfigError


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True)
class Ramp:
    """A type that reads text by itself."""

    start: float
    end: float

    @classmethod
    def parse(cls, text: str) -> Self:
        start, _, end = text.partition(":")
        return cls(float(start), float(end))


class OnlyCode:
    """What text cannot become."""


@dataclass(frozen=True, kw_only=True)
class Base:
    seed: int = 0
    """Seed of everything
    random, 100% of it."""


@dataclass(frozen=True, kw_only=True)
class Config(Base):
    """All kinds of fields."""

    rate: float = 0.5
    """A number."""
    name: str = "x"
    shout: bool = False
    """Whether to shout."""
    mode: Literal["fast", "slow"] = "fast"
    colour: Colour = Colour.RED
    sizes: tuple[int, ...] = (64, 64)
    modules: tuple[str, ...] = ()
    limit: float | None = 1.0
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])
    where: Path | None = None
    ramp: Ramp | None = None
    either: float | str | OnlyCode = "linear"
    derived: int = field(init=False, default=7)

    def __post_init__(self) -> None:
        if self.rate < 0:
            raise ConfigError("rate", self.rate, "negative", "give 0 or more")


@dataclass(frozen=True, kw_only=True)
class Other:
    """Another group."""

    workers: int
    seed: int = 1


GROUPS = [OptionGroup("main", Config)]


def parse(*argv: str) -> Config:
    (config,) = parse_options("prog", "Does things.", GROUPS, argv)
    assert isinstance(config, Config)
    return config


def problem_of(*argv: str, groups: list[OptionGroup] = GROUPS) -> str:
    with pytest.raises(ConfigError) as caught:
        parse_options("prog", "Does things.", groups, argv)
    text = str(caught.value)
    assert "\n" not in text
    return text


def toml(folder: Path, text: str) -> str:
    path = folder / "config.toml"
    path.write_text(text)
    return str(path)


def test_nothing_given_is_the_default() -> None:
    assert parse() == Config()


@pytest.mark.parametrize(
    ("argv", "name", "value"),
    [
        (["--seed", "3"], "seed", 3),
        (["--seed", "-3"], "seed", -3),
        (["--seed=1e5"], "seed", 100_000),
        (["--seed", "1_000"], "seed", 1000),
        (["--rate", "1"], "rate", 1.0),
        (["--rate", "inf"], "rate", float("inf")),
        (["--name", "3"], "name", "3"),
        (["--shout"], "shout", True),
        (["--shout", "--no-shout"], "shout", False),
        (["--mode", "slow"], "mode", "slow"),
        (["--colour", "blue"], "colour", Colour.BLUE),
        (["--sizes", "1, 2,3"], "sizes", (1, 2, 3)),
        (["--sizes", ""], "sizes", ()),
        (["--modules", "a", "--modules", "b,c"], "modules", ("a", "b", "c")),
        (["--limit", "2"], "limit", 2.0),
        (["--limit", "none"], "limit", None),
        (["--extra", '{"a": [1]}'], "extra", {"a": [1]}),
        (["--where", "/srv/x"], "where", Path("/srv/x")),
        (["--ramp", "1:2"], "ramp", Ramp(1.0, 2.0)),
        (["--either", "2"], "either", 2.0),
        (["--either", "linear:1:0"], "either", "linear:1:0"),
    ],
)
def test_a_flag_becomes_a_value_of_its_fields_type(
    argv: list[str], name: str, value: object
) -> None:
    found = getattr(parse(*argv), name)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (["--seed", "x"], "--seed='x': not valid; give a whole number"),
        (["--seed", "1.5"], "--seed='1.5': not valid; give a whole number"),
        (["--rate", "nan"], "--rate='nan': not valid; give a number"),
        (["--limit", "x"], "--limit='x': not valid; give none or a number"),
        (["--mode", "fat"], "--mode='fat': not valid; give one of fast, slow"),
        (["--colour", "pink"], "--colour='pink': not valid; give one of red, blue"),
        (["--sizes", "64,x"], "--sizes='64,x': not valid; give a whole number"),
        (["--extra", "[]"], "--extra='[]': not valid; give a JSON object"),
        (["--extra", "{"], "--extra='{': not valid; give a JSON object"),
        (["--rate", "-1"], "rate=-1.0: negative; give 0 or more"),
        (["--sede", "3"], "arguments='--sede': no such option; did you mean --seed"),
        (["--zzz"], "arguments='--zzz': no such option; see --help"),
        (["--no-seed"], "arguments='--no-seed': takes a value and has no 'no' form"),
        (["--seed"], "arguments='--seed': expected one argument; see 'prog --help'"),
        (["--see", "3"], "arguments='--see': no such option; did you mean --seed"),
        (["stray"], "arguments='stray': belongs to no option"),
        (["--derived", "3"], "arguments='--derived': no such option"),
    ],
)
def test_a_wrong_flag_is_one_line_that_says_what_to_give(argv: list[str], text: str) -> None:
    assert text in problem_of(*argv)


def test_what_follows_an_unknown_option_is_not_repeated_since_it_may_be_a_password() -> None:
    assert "secret" not in problem_of("--redsi=redis://:secret@host")
    assert "secret" not in problem_of("redis://:secret@host")


def test_a_file_stands_between_defaults_and_flags(tmp_path: Path) -> None:
    path = toml(
        tmp_path,
        'rate = 2\n[main]\nsizes = [8]\nname = "file"\nextra = {a = 1}\nramp = "1:2"\nshout = true',
    )
    assert parse("--config", path, "--name", "flag") == Config(
        rate=2.0, sizes=(8,), name="flag", extra={"a": 1}, ramp=Ramp(1.0, 2.0), shout=True
    )


def test_a_file_may_write_names_with_dashes_and_tables_for_mappings(tmp_path: Path) -> None:
    @dataclass(frozen=True, kw_only=True)
    class Dashed:
        """Two words."""

        two_words: int = 0

    groups = [OptionGroup("my group", Dashed), *GROUPS]
    path = toml(tmp_path, "two-words = 3\n[extra]\na = 1\n['my group']\ntwo_words = 4")
    dashed, config = parse_options("prog", "", groups, ["--config", path])
    assert dashed.two_words == 4
    assert config.extra == {"a": 1}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("sede = 1", "sede=1: {path} has an unknown key; did you mean seed"),
        ("[main]\nsede = 1", "main.sede=1: {path} has an unknown key; did you mean seed"),
        ("[mian]\nseed = 1", "did you mean main"),
        ("seed = 1.5", "seed in {path}=1.5: not valid; give a whole number"),
        ("seed = true", "seed in {path}=True: not valid; give a whole number"),
        ("shout = 1", "shout in {path}=1: not valid; give true or false"),
        ("name = 1", "name in {path}=1: not valid; give text"),
        ("sizes = 3", "give a list, such as [64, 64]"),
        ("sizes = ['a']", "give a whole number"),
        ("mode = 'fat'", "give one of fast, slow"),
        ("extra = 3", "give a table"),
        ("limit = 'x'", "give none or a number"),
        ("seed = ", "not valid TOML"),
    ],
)
def test_a_wrong_file_is_one_line_that_names_file_and_key(
    tmp_path: Path, text: str, problem: str
) -> None:
    path = toml(tmp_path, text)
    assert problem.replace("{path}", path) in problem_of("--config", path)


def test_a_missing_file_is_a_clear_error(tmp_path: Path) -> None:
    assert "No such file or directory" in problem_of("--config", str(tmp_path / "none.toml"))


def test_help_groups_the_fields_with_their_docstrings_and_defaults(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as caught:
        parse("--help")
    assert caught.value.code == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "Does things." in text
    assert "main: All kinds of fields." in text
    assert "--seed INT Seed of everything random, 100% of it. (default: 0)" in text
    assert "--shout, --no-shout Whether to shout. (default: off)" in text
    assert "--mode {fast,slow} (default: fast)" in text
    assert "--sizes INT,INT,... (default: 64,64)" in text
    assert "--limit none|FLOAT (default: 1)" in text
    assert "--where PATH" in text


def test_two_groups_of_one_option_need_a_prefix() -> None:
    with pytest.raises(TypeError, match="prefix"):
        parse_options("prog", "", [*GROUPS, OptionGroup("other", Other)], [])
    groups = [*GROUPS, OptionGroup("other", Other, prefix="other")]
    config, other = parse_options("prog", "", groups, ["--other-seed", "5", "--other-workers", "2"])
    assert (config.seed, other) == (0, Other(workers=2, seed=5))


def test_a_table_may_leave_its_groups_prefix_out(tmp_path: Path) -> None:
    path = toml(tmp_path, "other_seed = 4\n[other]\nworkers = 3")
    groups = [OptionGroup("other", Other, prefix="other")]
    assert parse_options("prog", "", groups, ["--config", path]) == (Other(workers=3, seed=4),)


def test_a_field_without_default_has_to_be_given() -> None:
    text = problem_of(groups=[OptionGroup("other", Other)])
    assert text.startswith("--workers=None: missing")


def test_an_instance_gives_other_defaults() -> None:
    groups = [OptionGroup("main", Config, defaults=Config(rate=3.0, seed=5))]
    assert parse_options("prog", "", groups, ["--seed", "6"]) == (Config(rate=3.0, seed=6),)


def test_a_field_text_cannot_become_is_refused_when_the_program_is_written() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Wrong:
        callback: OnlyCode | None = None

    with pytest.raises(TypeError, match="no option can be made of callback"):
        parse_options("prog", "", [OptionGroup("wrong", Wrong)], [])


def test_peeking_reads_its_own_options_and_leaves_all_others(tmp_path: Path) -> None:
    path = toml(tmp_path, "seed = 3\nunknown = 1\n[dqn]\nx = 1")
    argv = ["--config", path, "--help", "--unknown", "2", "--rate", "4"]
    (config,) = peek_options(GROUPS, argv)
    assert config == Config(seed=3, rate=4.0)


@given(
    st.one_of(
        st.tuples(st.just(int), st.integers()),
        st.tuples(st.just(bool), st.booleans()),
        st.tuples(st.just(tuple[int, ...]), st.lists(st.integers()).map(tuple)),
        st.tuples(st.just(int | None), st.none() | st.integers()),
        st.tuples(st.just(Mapping[str, int]), st.dictionaries(st.text(), st.integers())),
    )
)
def test_what_help_shows_can_be_given(case: tuple[Any, object]) -> None:
    annotation, value = case
    assert from_text(annotation, to_text(value)) == value
