"""Command-line options made from configuration dataclasses, with a TOML file behind them.

Every field is one option of the same name; its help is the docstring below the field. A flag wins
over the file given with ``--config``, which wins over the field's default.
"""

from __future__ import annotations

import argparse
import dataclasses
import difflib
import re
import sys
import textwrap
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, cast, get_type_hints

from asyncrl.cli.field_docs import field_docs
from asyncrl.cli.values import (
    ValueProblem,
    from_text,
    from_toml,
    is_flag,
    is_repeatable,
    is_supported,
    metavar,
    to_text,
)
from asyncrl.errors import ConfigError

CONFIG_FLAG = "--config"

Values = dict[str, dict[str, Any]]
"""Group title -> field -> value, for what was given and nothing else."""


@dataclass(frozen=True)
class OptionGroup:
    """The options of one configuration dataclass."""

    title: str
    """Heading in the help, and name of its table in the TOML file."""
    config_type: type[Any]
    prefix: str = ""
    """Put before each name, with a dash: ``--prefix-field-name``."""
    defaults: Any = None
    """An instance whose values take the place of the fields' defaults."""


@dataclass(frozen=True)
class _Option:
    group: OptionGroup
    field: dataclasses.Field[Any]
    annotation: Any
    doc: str

    @property
    def name(self) -> str:
        """What TOML calls it, with underscores."""
        prefix = f"{self.group.prefix}_" if self.group.prefix else ""
        return _plain(prefix + self.field.name)

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")

    @property
    def required(self) -> bool:
        missing = dataclasses.MISSING
        return self.group.defaults is None and (
            self.field.default is missing and self.field.default_factory is missing
        )

    @property
    def default(self) -> object:
        if self.group.defaults is not None:
            return getattr(self.group.defaults, self.field.name)
        if self.field.default_factory is not dataclasses.MISSING:
            return self.field.default_factory()
        return self.field.default

    @property
    def metavar(self) -> str:
        """What stands for the value; none is named only where it is not the default."""
        name = metavar(self.annotation)
        optional = not self.required and self.default is None
        return name.removeprefix("none|") if optional else name

    @property
    def help(self) -> str:
        text = self.doc
        if self.required:
            text = f"{text} (required)"
        elif "default:" not in text.lower() and self.default not in ({}, (), "", None):
            text = f"{text} (default: {to_text(self.default)})"
        return text.strip().replace("%", "%%")


def parse_options(
    prog: str,
    description: str,
    groups: Sequence[OptionGroup],
    argv: Sequence[str] | None = None,
) -> tuple[Any, ...]:
    """Read flags and the TOML file; return one instance of each group's dataclass, in their order.

    ``--help`` prints the options by group and exits with code 0.

    Args:
        prog: Name of the program in its help.
        description: What it does.
        groups: The dataclasses. No two may give options of one name.
        argv: The arguments; those of this process where None.

    Raises:
        ConfigError: An option or its value is wrong, or the file is; in words for the user.
    """
    options = _options(groups)
    parser = _parser(prog, description, groups, options, add_help=True)
    known, unknown = parser.parse_known_args(sys.argv[1:] if argv is None else argv)
    if unknown:
        _refuse(unknown[0], options)
    return _build_all(groups, options, vars(known), strict=True)


def peek_options(
    groups: Sequence[OptionGroup], argv: Sequence[str] | None = None
) -> tuple[Any, ...]:
    """Read just these groups as `parse_options` does and leave all else, ``--help`` too, unread.

    For a choice that decides which other groups there are.

    Raises:
        ConfigError: A value of these groups is wrong, or the file cannot be read.
    """
    options = _options(groups)
    parser = _parser("", "", groups, options, add_help=False)
    known, _ = parser.parse_known_args(sys.argv[1:] if argv is None else argv)
    return _build_all(groups, options, vars(known), strict=False)


class _Parser(argparse.ArgumentParser):
    """Raises `ConfigError` where argparse would print its usage and exit."""

    def error(self, message: str) -> NoReturn:
        found = re.match(r"argument (\S+?)(?:/.*)?: (.*)", message)
        name, problem = found.groups() if found else ("", message)
        raise ConfigError("arguments", name, problem, f"see '{self.prog} --help'")


def _parser(
    prog: str,
    description: str,
    groups: Sequence[OptionGroup],
    options: Mapping[str, _Option],
    *,
    add_help: bool,
) -> argparse.ArgumentParser:
    parser = _Parser(
        prog=prog,
        usage="%(prog)s [options]",
        description=description,
        add_help=add_help,
        allow_abbrev=False,
    )
    parser.add_argument(
        CONFIG_FLAG, metavar="FILE", help="TOML file with these options; flags win over it."
    )
    for group in groups:
        about = (group.config_type.__doc__ or "").strip().split("\n\n")[0]
        section = parser.add_argument_group(group.title, " ".join(about.split()).replace("%", "%%"))
        for option in options.values():
            if option.group is not group:
                continue
            shared: dict[str, Any] = {"default": argparse.SUPPRESS, "help": option.help}
            shared["dest"] = option.name
            if is_flag(option.annotation):
                section.add_argument(option.flag, action=argparse.BooleanOptionalAction, **shared)
            else:
                action = "append" if is_repeatable(option.annotation) else "store"
                section.add_argument(option.flag, action=action, metavar=option.metavar, **shared)
    return parser


def _options(groups: Sequence[OptionGroup]) -> dict[str, _Option]:
    """Return name -> option for all fields of all groups."""
    options: dict[str, _Option] = {}
    for group in groups:
        hints = get_type_hints(group.config_type)
        docs = field_docs(group.config_type)
        for field in dataclasses.fields(group.config_type):
            if not field.init:
                continue
            option = _Option(group, field, hints[field.name], docs.get(field.name, ""))
            if not is_supported(option.annotation):
                raise TypeError(f"no option can be made of {field.name}: {option.annotation}")
            taken = options.setdefault(option.name, option)
            if taken is not option or option.flag == CONFIG_FLAG:
                raise TypeError(
                    f"{option.flag} is an option of {taken.group.title!r} and {group.title!r} both;"
                    " give one of the groups a prefix"
                )
    return options


def _build_all(
    groups: Sequence[OptionGroup],
    options: Mapping[str, _Option],
    given: dict[str, Any],
    *,
    strict: bool,
) -> tuple[Any, ...]:
    file = cast("str | None", given.pop("config"))
    values = _from_file(Path(file), groups, options, strict=strict) if file else {}
    for name, value in given.items():
        option = options[name]
        found = value if is_flag(option.annotation) else _read_flag(option, value)
        values.setdefault(option.group.title, {})[option.field.name] = found
    return tuple(_build(group, values.get(group.title, {}), options) for group in groups)


def _read_flag(option: _Option, given: str | list[str]) -> object:
    text = given if isinstance(given, str) else ",".join(given)
    try:
        return from_text(option.annotation, text)
    except ValueProblem as problem:
        raise _wrong(option.flag, text, problem) from None


def _from_file(
    path: Path, groups: Sequence[OptionGroup], options: Mapping[str, _Option], *, strict: bool
) -> Values:
    """Read a TOML file: tables named after groups, and options of any group outside of them."""
    tables = {_plain(group.title): group for group in groups}
    values: Values = {}
    for key, value in _read_toml(path).items():
        group = tables.get(_plain(key))
        if group is not None and isinstance(value, dict):
            own = {
                name: option
                for option in options.values()
                if option.group is group
                for name in (option.name, _plain(option.field.name))
            }
            for name, inner in cast("dict[str, Any]", value).items():
                _add_from_file(values, path, f"{key}.{name}", inner, own)
        elif strict or _plain(key) in options:
            _add_from_file(values, path, key, value, options, tables=tables)
    return values


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(
            CONFIG_FLAG, str(path), f"not valid TOML: {error}", "correct the file there"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ConfigError(
            CONFIG_FLAG, str(path), f"cannot be read: {reason}", "give the path of a TOML file"
        ) from None


def _add_from_file(
    values: Values,
    path: Path,
    key: str,
    value: object,
    options: Mapping[str, _Option],
    *,
    tables: Iterable[str] = (),
) -> None:
    name = _plain(key.rpartition(".")[2])
    option = options.get(name)
    if option is None:
        near = _near(name, [*options, *tables])
        raise ConfigError(key, value, f"{path} has an unknown key", near)
    try:
        found = from_toml(option.annotation, value)
    except ValueProblem as problem:
        raise _wrong(f"{key} in {path}", value, problem) from None
    values.setdefault(option.group.title, {})[option.field.name] = found


def _build(group: OptionGroup, values: Mapping[str, Any], options: Mapping[str, _Option]) -> Any:
    if group.defaults is not None:
        return dataclasses.replace(group.defaults, **values)
    for option in options.values():
        if option.group is group and option.required and option.field.name not in values:
            raise ConfigError(option.flag, None, "missing, and there is no default", "give it")
    return group.config_type(**values)


def _refuse(argument: str, options: Mapping[str, _Option]) -> NoReturn:
    if not argument.startswith("--"):
        scheme, colon, _ = argument.partition("://")  # what follows may hold a password
        shown = f"{scheme}://..." if colon else argument
        fix = "put the name of an option before it"
        raise ConfigError("arguments", shown, "belongs to no option", fix)
    flag = argument.partition("=")[0]  # and here as well
    name = _plain(flag.removeprefix("--").removeprefix("no-"))
    flags = {each: option.flag for each, option in options.items()}
    if name in options:
        problem, fix = "takes a value and has no 'no' form", f"give a value to {flags[name]}"
        raise ConfigError("arguments", flag, problem, fix)
    raise ConfigError("arguments", flag, "no such option", _near(name, list(flags), flags))


def _near(name: str, names: Sequence[str], shown: Mapping[str, str] | None = None) -> str:
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.6)
    if not near:
        return "see --help for all options"
    return "did you mean " + " or ".join((shown or {}).get(each, each) for each in near)


def _wrong(name: str, value: object, problem: ValueProblem) -> ConfigError:
    return ConfigError(name, value, "not valid", f"give {textwrap.shorten(str(problem), 300)}")


def _plain(name: str) -> str:
    return name.replace("-", "_").lower()
