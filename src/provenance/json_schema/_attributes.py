"""The docstrings that stand below the attributes of a class, which Python itself does not keep."""

from __future__ import annotations

import ast
import inspect
from itertools import pairwise


def attribute_docs(cls: type) -> dict[str, str]:
    """Text of the docstring below each annotated attribute of the class that has one, on one line."""
    (body,) = ast.parse(inspect.cleandoc(inspect.getsource(cls))).body
    docs = {}
    statements = body.body if isinstance(body, ast.ClassDef) else []
    for statement, below in pairwise(statements):
        if (
            isinstance(statement, ast.AnnAssign)
            and isinstance(statement.target, ast.Name)
            and isinstance(below, ast.Expr)
            and isinstance(below.value, ast.Constant)
        ):
            docs[statement.target.id] = " ".join(str(below.value.value).split())
    return docs
