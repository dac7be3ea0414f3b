"""Whether a program that asks for CUDA at a line asks for MPS there too, and so has a way for a Mac."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterator
from functools import cache

_MAC = ("mps", "accelerator")


@cache
def asks_for_mps_too(file: str, line: int) -> bool:
    """Whether the statement at ``line`` names MPS or the accelerator: in one expression, in a branch of an ``if``, or
    in an ``if`` that stands directly before or after it. True where the source cannot be read.
    """
    source = linecache.getlines(file)
    try:
        tree = ast.parse("".join(source))
    except (SyntaxError, ValueError):
        return True
    blocks = [block for node in ast.walk(tree) for block in _blocks(node)]
    around = [(block, place) for block in blocks for place, one in enumerate(block) if _spans(one, line)]
    if not around:
        return True
    # An `elif` is an `if` inside the one above it; other statements are asked from inside out.
    innermost = min(around, key=lambda found: _length(found[0][found[1]]))
    ifs = [found for found in around if isinstance(found[0][found[1]], ast.If) and _asks(found[0][found[1]], line)]
    block, place = max(ifs, key=lambda found: _length(found[0][found[1]])) if ifs else innermost
    near = [block[place]]
    if ifs:
        near += [one for one in block[max(0, place - 1) : place + 2] if isinstance(one, ast.If)]
    text = "".join("".join(source[one.lineno - 1 : _end(one)]) for one in near).lower()
    return any(name in text for name in _MAC)


def _blocks(node: ast.AST) -> Iterator[list[ast.stmt]]:
    """The lists of statements in ``node``."""
    for _, value in ast.iter_fields(node):
        if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
            yield value


def _spans(one: ast.stmt, line: int) -> bool:
    return one.lineno <= line <= (one.end_lineno or one.lineno)


def _length(one: ast.stmt) -> int:
    return (one.end_lineno or one.lineno) - one.lineno


def _asks(one: ast.stmt, line: int) -> bool:
    """Whether ``line`` is in a condition of ``one``, an ``if``, or of its ``elif``."""
    while isinstance(one, ast.If):
        if one.test.lineno <= line <= (one.test.end_lineno or one.test.lineno):
            return True
        if len(one.orelse) != 1:
            return False
        one = one.orelse[0]
    return False


def _end(one: ast.stmt) -> int:
    """The last line of ``one``; of a block that is no ``if``, that of its head."""
    body = getattr(one, "body", None)
    if isinstance(body, list) and body and not isinstance(one, ast.If):
        return max(one.lineno, int(body[0].lineno) - 1)
    return one.end_lineno or one.lineno
