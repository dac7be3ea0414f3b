"""Which dtypes each release computes with on MPS, as read from its library."""

from __future__ import annotations

import pytest

from mpsprobe_coverage.kernels.dtypes import dtype_use

NEWEST = "2.15.0"


@pytest.mark.parametrize(
    ("name", "use", "since"),
    [
        ("float32", "computed", "1.12.0"),
        ("float64", "refused", None),
        ("complex128", "refused", None),
        ("bfloat16", "computed", "2.3.0"),
        ("complex64", "computed", "2.3.0"),
        ("uint16", "computed", "2.9.0"),
        ("float8_e4m3fn", "computed", "2.15.0"),
        ("float8_e5m2", "held", None),
        ("qint8", "refused", None),
    ],
)
def test_in_the_newest_release(name: str, use: str, since: str | None) -> None:
    found = dtype_use(name, NEWEST)
    assert (found.use, found.since) == (use, since)
    assert bool(found.reason) == (use != "computed")


def test_before_a_dtype_was_taken() -> None:
    assert dtype_use("float8_e4m3fn", "2.14.1").use == "held"
    assert dtype_use("bfloat16", "2.2.2").use == "refused"  # "BFloat16 is not supported on MPS", in empty_mps
    assert dtype_use("bfloat16", "1.12.0").use == "held"
