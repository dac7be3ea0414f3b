"""The shipped expectations, and the questions that they answer."""

from __future__ import annotations

import pytest
from packaging.version import Version

from mpsprobe.errors import UnknownName
from mpsprobe_coverage.kernels.mps import load_table
from mpsprobe_coverage.kernels.releases import torch_releases
from mpsprobe_tables.expectations import DATA, Expected, expectation_releases, load_expectations

MOST_BYTES = 60_000


def test_there_is_one_for_each_release_with_lists() -> None:
    assert expectation_releases() == tuple(one for one in torch_releases() if Version(one) >= Version("2.8.0"))
    files = [DATA / f"torch-{release}.expectations" for release in expectation_releases()]
    assert sum(len(file.read_bytes()) for file in files) < MOST_BYTES


def test_each_comes_from_the_wheel_of_its_table() -> None:
    for release in expectation_releases():
        found, table = load_expectations(release), load_table(release)
        assert (found.release, found.wheel, found.sha256) == (release, table.wheel, table.sha256)
        assert len(found.entries) >= 680
        assert len(found.lists["UNIMPLEMENTED_XFAILLIST"]) >= 70
        assert (found.supported_complex is None) != (found.unsupported_complex is None)
        assert bool(found.claimed) == (release not in {"2.8.0", "2.9.0", "2.9.1", "2.10.0"})


FAILS = {
    ("2.13.0", "logspace", "float32", False): ("UNIMPLEMENTED_XFAILLIST",),
    ("2.13.0", "nn.functional.silu", "int16", False): ("UNIMPLEMENTED_XFAILLIST",),
    ("2.13.0", "lu", "complex64", False): ("SUPPORTED_COMPLEX_OPS",),
    ("2.13.0", "linalg.matrix_rank", "float32", False): ("ON_MPS_XFAILLIST",),
    ("2.13.0", "unique", "float32", True): ("gradient XFAILLIST_GRAD",),
    ("2.13.0", "logspace", "float32", True): ("UNIMPLEMENTED_XFAILLIST",),
    ("2.13.0", "kthvalue", "bool", False): ("decorators",),
    ("2.8.0", "linalg.matrix_rank", "float32", False): ("ON_MPS_XFAILLIST",),
}
PASSES = (
    ("2.13.0", "nn.functional.silu", "float16", False),
    ("2.13.0", "abs", "complex64", False),
    ("2.15.0", "abs", "complex64", False),
    ("2.13.0", "unique", "float32", False),
    ("2.13.0", "kthvalue", "int8", False),
)


def test_what_a_release_expects() -> None:
    expected = {case: Expected("fail", lists) for case, lists in FAILS.items()} | dict.fromkeys(
        PASSES, Expected("pass")
    )
    expected["2.13.0", "empty", "float32", False] = Expected("skip", ("EMPTY_OPS_SKIPLIST",))
    assert {case: load_expectations(case[0]).expected(*case[1:]) for case in expected} == expected


def test_which_pairs_a_release_tests() -> None:
    newest, oldest = load_expectations("2.13.0"), load_expectations("2.8.0")
    assert newest.tests("nn.functional.silu", "int16", ["float32"])  # the entry claims it for MPS
    assert not oldest.tests("nn.functional.silu", "int16", ["float32"])
    assert not newest.tests("abs", "float64", ["float64"])
    assert not newest.tests("an_entry_of_tomorrow", "float32", ["float32"])
    assert newest.tests("signal.windows.hann", "float32", ["float32"])  # made by a helper function
    assert not newest.tests("torch._scaled_mm", "float32", [])


def test_a_release_without_lists_is_told() -> None:
    with pytest.raises(UnknownName, match=r"2\.7\.1"):
        load_expectations("2.7.1")
