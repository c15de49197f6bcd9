"""The docstrings of a dataclass's fields, from its source."""

from __future__ import annotations

import ast
import inspect
import itertools
import textwrap


def field_docs(config_type: type) -> dict[str, str]:
    """Return field name -> the text below it, on one line; inherited fields too.

    Empty for classes whose source cannot be read, as in an interactive session.
    """
    docs: dict[str, str] = {}
    for each in reversed(config_type.__mro__):
        if each is not object:
            docs |= _own_docs(each)
    return docs


def _own_docs(config_type: type) -> dict[str, str]:
    try:
        source = textwrap.dedent(inspect.getsource(config_type))
    except (OSError, TypeError):
        return {}
    body = next(node.body for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ClassDef))
    docs: dict[str, str] = {}
    for statement, following in itertools.pairwise(body):
        match statement, following:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                docs[name] = " ".join(text.split())
            case _:
                pass
    return docs
