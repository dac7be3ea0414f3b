"""Rewrites of operators that some release has no kernel for: what they are, by ``rewrites.toml``; the code is in
``functions.py``, with the other functions that programs get.

Each function gives the numbers and gradients of the one that it takes the place of, from operators that are native on
the releases where that is missing; tests compare both on the CPU and ask the kernel tables. On other devices than MPS
the original is called.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from mpsprobe_coverage.knowledge.kernels.mps import load_table
from mpsprobe_coverage.knowledge.kernels.releases import pick_release, torch_releases

_FAMILIES = {
    "torch.linalg.": "linalg_",
    "torch.nn.functional.": "",
    "torch.special.": "special_",
    "torch.fft.": "fft_",
    "torch.": "",
}
# What a program has these for is another device, or none: kernels of a library, quantized numbers, several processes.
_ELSEWHERE = re.compile(r"cudnn|miopen|mkldnn|quant|\bq_|int_repr|from_file|batch_norm_")


@dataclass(frozen=True)
class Rewrite:
    """An entry of ``rewrites.toml``, which says at its head what each field is."""

    name: str
    operators: frozenset[str]
    functions: frozenset[str]
    methods: frozenset[str]
    modules: Mapping[str, Sequence[str]]
    only_with: str
    sizes: Sequence[str]

    @property
    def code(self) -> str:
        return source(self.name)

    def module(self, name: str) -> str:
        """The class of a module that computes by this rewrite, with the function."""
        takes, attributes = self.modules[name]
        given = [f"{name}={name}" for name in re.findall(r"(\w+)(?:=\w+)?(?:, |$)", takes)]
        values = ", ".join([*given, *(f"{name}=self.{name}" for name in attributes.split())])
        forward = f"    def forward(self, {takes}):\n        return {self.name}({values})"
        return f"{self.code}\n\n\nclass {name}OnMPS(torch.nn.{name}):\n{forward}"


def _text(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def _entry(data: Mapping[str, Any]) -> Rewrite:
    operators = frozenset(f"aten::{name}" for name in data["operators"].split())
    functions, methods = (frozenset(data.get(key, "").split()) for key in ("functions", "methods"))
    only_with, sizes = data.get("only_with", ""), data.get("sizes", "").split()
    return Rewrite(data["name"], operators, functions, methods, data.get("modules", {}), only_with, sizes)


REWRITES = tuple(_entry(rewrite) for rewrite in tomllib.loads(_text("rewrites.toml"))["rewrite"])


@cache
def _sources() -> dict[str, str]:
    text = _text("functions.py")
    defined = [
        statement for statement in ast.parse(text).body if isinstance(statement, (ast.FunctionDef, ast.ClassDef))
    ]
    return {definition.name: ast.get_source_segment(text, definition) or "" for definition in defined}


def source(name: str) -> str:
    """The source of a function that programs get, with the other ones that it calls before it."""
    sources = _sources()
    body = sources[name].split(":\n", 1)[1]
    called = [one for one in sources if one != name and re.search(rf"(?<![\w.]){one}\(", body)]
    return "\n\n\n".join(sources[needed] for needed in [*called, name])


def operators_of(function: str) -> frozenset[str]:
    """What a function of torch may be called as an operator."""
    prefix = next((family for family in _FAMILIES if function.startswith(family)), None)
    if prefix is None:
        return frozenset()
    short = _FAMILIES[prefix] + function.removeprefix(prefix).removesuffix("_")
    return frozenset(f"aten::{before}{short}{end}" for before in ("", "_") for end in ("", ".out"))


@cache
def rewrite_of(function: str) -> Rewrite | None:
    """The rewrite of what a function, or a module of ``torch.nn``, calls."""
    names = (
        rewrite
        for rewrite in REWRITES
        if function in rewrite.functions or function.removeprefix("torch.nn.") in rewrite.modules
    )
    return next(names, None)


@cache
def lacked(function: str, release: tuple[int, ...], sized: bool = False) -> str | None:
    """The operator that a function or module of torch calls, and that ``release`` does not have, as far as its name
    says which one that is; or has for some sizes only, where it is ``sized``.
    """
    resolved = pick_release(".".join(map(str, release)), torch_releases())
    if resolved is None or not function.startswith("torch.") or _ELSEWHERE.search(function):
        return None
    table, rewrite = load_table(resolved), rewrite_of(function)
    operators = {
        operator
        for operator in operators_of(function)
        if not operator.startswith("aten::_") and not operator.endswith(".out")
    }
    if rewrite is not None:
        operators = {operator for operator in rewrite.operators if "backward" not in operator}
    refused = sized and rewrite is not None and rewrite.sizes[0] in table.markers
    return next((operator for operator in sorted(operators) if refused or table.verdict(operator) == "missing"), None)
