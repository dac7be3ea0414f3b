"""Samples that no test of PyTorch has: which are made, and what becomes of them."""

from __future__ import annotations

from mpsprobe.progress import SilentProgress
from mpsprobe_tables.audit.untested import audit_untested


def test_each_entry_counts_once_for_each_kind_that_it_has() -> None:
    entries = ["exp", "linalg.eig", "nn.functional.conv2d"]
    [one] = audit_untested(["2.13.0"], entries, 1, SilentProgress())
    assert dict(one.counts["rank 6"]) == {"native": 1, "missing": 1}  # a convolution of images has no such rank
    assert "int64" in one.counts and one.counts["int64"]["missing"] == 1  # the CPU has exp of whole numbers, not eig
    assert one.counts["float8_e5m2"].total() == 3


def test_refusals_are_told_by_their_sources() -> None:
    [one] = audit_untested(["2.13.0"], ["erf", "nonzero"], 1, SilentProgress())
    assert one.counts["complex64"]["metal"] == 1
    assert one.counts["float8_e5m2"]["native"] == 0
