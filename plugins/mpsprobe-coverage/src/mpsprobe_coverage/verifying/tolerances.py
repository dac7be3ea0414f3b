"""How far a result may be from the float64 one, by operator and dtype: what PyTorch's own tests allow."""

from __future__ import annotations

import functools
import tomllib
from importlib.resources import files
from typing import Any, NamedTuple

import torch

from mpsprobe_coverage.knowledge.calls.spec import dtype_name

TESTS_DEFAULT = "torch.testing.assert_close"


class Tolerance(NamedTuple):
    """``rtol`` is relative to the element; ``atol`` to the root of the mean square of the whole tensor."""

    rtol: float
    atol: float
    source: str


EXACT = Tolerance(0.0, 0.0, TESTS_DEFAULT)


@functools.cache
def _data() -> dict[str, Any]:
    return tomllib.loads((files(__package__) / "tolerances.toml").read_text(encoding="utf-8"))


@functools.cache
def tolerance_of(operator: str, dtype: torch.dtype) -> Tolerance:
    """That of ``aten::mm`` (with or without an overload) for results of ``dtype``; ``EXACT`` for whole numbers."""
    name, kind = operator.partition("::")[2].partition(".")[0], dtype_name(dtype)
    name = name.removeprefix("_foreach_")
    for entry in _data()["mps"]:
        if kind in entry and name in entry["operators"]:
            return Tolerance(source=entry["source"], **entry[kind])
    usual = _data()["default"].get(kind)
    return EXACT if usual is None else Tolerance(source=TESTS_DEFAULT, **usual)
