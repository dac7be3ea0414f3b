"""What to do, for each verdict."""

from __future__ import annotations

from typing import Any

import pytest
from example_reports import finding

from mpsprobe.schemas import OperatorFinding
from mpsprobe_exporters.advice import advice


def advised(verdict: str, **more: Any) -> str:
    return advice(OperatorFinding.model_validate(finding("aten::op", verdict, **more)), "2.6.0")


def test_the_scanner_has_the_first_word() -> None:
    assert advised("missing", advice=" Do\nthis. ") == "Do this."
    assert "No table covers it" in advised("unknown", advice="  ")


@pytest.mark.parametrize("verdict", ["missing", "fallback"])
def test_what_moves_to_the_cpu_has_its_price(verdict: str) -> None:
    said = advised(verdict, native_since="2.9.0", input_bytes=1500, output_bytes=20)
    assert said.startswith("Upgrade to torch 2.9.0 or later")
    assert "1.5 kB there and 20 B back in each step" in said
    assert "Upgrade" not in advised(verdict, native_since=None)
    assert "in each step" not in advised(verdict)


def test_missing_names_the_variable_and_when_to_set_it() -> None:
    for since in ("2.9.0", None):
        assert "PYTORCH_ENABLE_MPS_FALLBACK=1 before `import torch`" in advised("missing", native_since=since)
    assert advised("missing", native_since=None).startswith("No release has a kernel yet")


def test_wide_dtypes_name_the_line_and_the_dtype_to_use() -> None:
    said = advised("unsupported", dtypes=["float64", "float32"], native_since="2.9.0", call_sites=["/x/rope.py:12"])
    assert said == "MPS has no float64 in any release: use float32 there, at rope.py:12, or keep it on the CPU."
    assert "complex64" in advised("unsupported", dtypes=["complex128"])


def test_unsupported_says_that_the_variable_does_not_help() -> None:
    assert "does not help" in advised("unsupported")
    assert advised("unsupported", native_since="2.9.0").startswith("Upgrade to torch 2.9.0")
