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
        given = [f"{one}={one}" for one in re.findall(r"(\w+)(?:=\w+)?(?:, |$)", takes)]
        values = ", ".join([*given, *(f"{one}=self.{one}" for one in attributes.split())])
        forward = f"    def forward(self, {takes}):\n        return {self.name}({values})"
        return f"{self.code}\n\n\nclass {name}OnMPS(torch.nn.{name}):\n{forward}"


def _text(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def _entry(data: Mapping[str, Any]) -> Rewrite:
    operators = frozenset(f"aten::{one}" for one in data["operators"].split())
    functions, methods = (frozenset(data.get(key, "").split()) for key in ("functions", "methods"))
    only_with, sizes = data.get("only_with", ""), data.get("sizes", "").split()
    return Rewrite(data["name"], operators, functions, methods, data.get("modules", {}), only_with, sizes)


REWRITES = tuple(_entry(one) for one in tomllib.loads(_text("rewrites.toml"))["rewrite"])


@cache
def _sources() -> dict[str, str]:
    text = _text("functions.py")
    defined = [one for one in ast.parse(text).body if isinstance(one, (ast.FunctionDef, ast.ClassDef))]
    return {one.name: ast.get_source_segment(text, one) or "" for one in defined}


def source(name: str) -> str:
    """The source of a function that programs get, with the other ones that it calls before it."""
    sources = _sources()
    body = sources[name].split(":\n", 1)[1]
    called = [one for one in sources if one != name and re.search(rf"(?<![\w.]){one}\(", body)]
    return "\n\n\n".join(sources[one] for one in [*called, name])


def operators_of(function: str) -> frozenset[str]:
    """What a function of torch may be called as an operator."""
    prefix = next((one for one in _FAMILIES if function.startswith(one)), None)
    if prefix is None:
        return frozenset()
    short = _FAMILIES[prefix] + function.removeprefix(prefix).removesuffix("_")
    return frozenset(f"aten::{before}{short}{end}" for before in ("", "_") for end in ("", ".out"))


@cache
def rewrite_of(function: str) -> Rewrite | None:
    """The rewrite of what a function, or a module of ``torch.nn``, calls."""
    names = (one for one in REWRITES if function in one.functions or function.removeprefix("torch.nn.") in one.modules)
    return next(names, None)


@cache
def lacked(function: str, release: tuple[int, ...], sized: bool = False) -> str | None:
    """The operator that a function or module of torch calls, and that ``release`` does not have, as far as its name
    says which one that is; or has for some sizes only, where it is ``sized``.
    """
    found = pick_release(".".join(map(str, release)), torch_releases())
    if found is None or not function.startswith("torch.") or _ELSEWHERE.search(function):
        return None
    table, rewrite = load_table(found), rewrite_of(function)
    operators = {one for one in operators_of(function) if not one.startswith("aten::_") and not one.endswith(".out")}
    if rewrite is not None:
        operators = {one for one in rewrite.operators if "backward" not in one}
    refused = sized and rewrite is not None and rewrite.sizes[0] in table.markers
    return next((one for one in sorted(operators) if refused or table.verdict(one) == "missing"), None)
