"""The source of each function of the catalogue, as programs get it. Apart from the entries, which need no libcst."""

from __future__ import annotations

import functools
from importlib import resources

import libcst as cst


@functools.cache
def read() -> dict[str, str]:
    """Each function, by its name: without types, which would need an import."""
    text = resources.files(__package__).joinpath("functions.py").read_text(encoding="utf-8")
    bare = cst.parse_module(text).visit(_Bare())
    functions = [one for one in bare.body if isinstance(one, cst.FunctionDef)]
    return {one.name.value: bare.code_for_node(one.with_changes(leading_lines=[])) for one in functions}


class _Bare(cst.CSTTransformer):
    def leave_Param(self, _: cst.Param, updated: cst.Param) -> cst.Param:
        equal = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
        return updated.with_changes(annotation=None, equal=equal if updated.default else cst.MaybeSentinel.DEFAULT)

    def leave_FunctionDef(self, _: cst.FunctionDef, updated: cst.FunctionDef) -> cst.FunctionDef:
        return updated.with_changes(returns=None)
