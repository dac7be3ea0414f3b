"""The shipped expectations, and the questions that they answer."""

from __future__ import annotations

import hashlib
import json
import os
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.version import Version

from mpsprobe.errors import TableError, UnknownName
from mpsprobe_coverage.kernels.mps import load_table
from mpsprobe_coverage.kernels.releases import torch_releases
from mpsprobe_tables.encoding import seal
from mpsprobe_tables.expectations import (
    DATA,
    MAGIC,
    Decorator,
    Expectations,
    Expected,
    decode,
    encode,
    expectation_releases,
    load_expectations,
)

MOST_BYTES = 60_000
ENTRIES = st.text("ab._", min_size=1, max_size=4)
DTYPES = st.none() | st.lists(st.sampled_from(["bool", "int8", "float32"]), unique=True).map(lambda d: tuple(sorted(d)))
LISTED = st.dictionaries(ENTRIES, DTYPES, max_size=5)
CLAIMED = st.dictionaries(ENTRIES, DTYPES.map(lambda dtypes: dtypes or ()), max_size=5)
MADE = st.builds(
    Expectations,
    release=st.sampled_from(["2.13.0", "2.14.1"]),
    wheel=st.text(max_size=10),
    sha256=st.text(max_size=10),
    kinds=st.just({"forward A": "fail", "gradient A": "skip"}),
    lists=st.just({}) | st.fixed_dictionaries({"A": LISTED, "B": LISTED}),
    gradient_lists=st.fixed_dictionaries({"A": LISTED}),
    error_input_lists=st.just({}),
    supported_complex=st.none() | st.frozensets(ENTRIES),
    unsupported_complex=st.none() | st.frozensets(ENTRIES),
    claimed=CLAIMED,
    claimed_backward=CLAIMED,
    decorators=st.dictionaries(
        ENTRIES,
        st.lists(
            st.builds(Decorator, st.sampled_from(["fail", "skip"]), st.none() | st.just("t"), DTYPES), min_size=1
        ).map(tuple),
        max_size=3,
    ),
    entries=st.frozensets(ENTRIES),
    elsewhere=st.frozensets(ENTRIES),
    unread=st.lists(st.text(max_size=5)).map(tuple),
)


def test_there_is_one_for_each_release_with_lists() -> None:
    assert expectation_releases() == tuple(one for one in torch_releases() if Version(one) >= Version("2.8.0"))
    files = [DATA / f"torch-{release}.expectations" for release in expectation_releases()]
    assert sum(len(file.read_bytes()) for file in files) < MOST_BYTES


@pytest.mark.parametrize("release", expectation_releases())
def test_each_comes_from_the_wheel_of_its_table(release: str) -> None:
    found, table = load_expectations(release), load_table(release)
    assert (found.release, found.wheel, found.sha256) == (release, table.wheel, table.sha256)
    assert len(found.entries) >= 680
    assert len(found.lists["UNIMPLEMENTED_XFAILLIST"]) >= 70
    assert (found.supported_complex is None) != (found.unsupported_complex is None)
    assert bool(found.claimed) == (release not in {"2.8.0", "2.9.0", "2.9.1", "2.10.0"})


@pytest.mark.parametrize(
    ("release", "entry", "dtype", "gradient", "expected"),
    [
        ("2.13.0", "logspace", "float32", False, Expected("fail", ("UNIMPLEMENTED_XFAILLIST",))),
        ("2.13.0", "nn.functional.silu", "int16", False, Expected("fail", ("UNIMPLEMENTED_XFAILLIST",))),
        ("2.13.0", "nn.functional.silu", "float16", False, Expected("pass")),
        ("2.13.0", "empty", "float32", False, Expected("skip", ("EMPTY_OPS_SKIPLIST",))),
        ("2.13.0", "abs", "complex64", False, Expected("pass")),
        ("2.13.0", "lu", "complex64", False, Expected("fail", ("SUPPORTED_COMPLEX_OPS",))),
        ("2.15.0", "abs", "complex64", False, Expected("pass")),
        ("2.13.0", "linalg.matrix_rank", "float32", False, Expected("fail", ("ON_MPS_XFAILLIST",))),
        ("2.13.0", "unique", "float32", True, Expected("fail", ("gradient XFAILLIST_GRAD",))),
        ("2.13.0", "unique", "float32", False, Expected("pass")),
        ("2.13.0", "logspace", "float32", True, Expected("fail", ("UNIMPLEMENTED_XFAILLIST",))),
        ("2.13.0", "kthvalue", "bool", False, Expected("fail", ("decorators",))),
        ("2.13.0", "kthvalue", "int8", False, Expected("pass")),
        ("2.8.0", "linalg.matrix_rank", "float32", False, Expected("fail", ("ON_MPS_XFAILLIST",))),
    ],
)
def test_what_a_release_expects(release: str, entry: str, dtype: str, gradient: bool, expected: Expected) -> None:
    assert load_expectations(release).expected(entry, dtype, gradient) == expected


def test_which_pairs_a_release_tests() -> None:
    newest, oldest = load_expectations("2.13.0"), load_expectations("2.8.0")
    assert newest.tests("nn.functional.silu", "int16", ["float32"])  # the entry claims it for MPS
    assert not oldest.tests("nn.functional.silu", "int16", ["float32"])
    assert not newest.tests("abs", "float64", ["float64"])
    assert not newest.tests("an_entry_of_tomorrow", "float32", ["float32"])
    assert newest.tests("signal.windows.hann", "float32", ["float32"])  # made by a helper function
    assert not newest.tests("torch._scaled_mm", "float32", [])


@given(MADE, st.none() | MADE)
def test_expectations_come_back_from_their_difference(made: Expectations, base: Expectations | None) -> None:
    data = encode(made, base)
    assert decode(data, "x", base) == made
    assert encode(made, base) == data


@given(MADE, st.integers(0, 10**6), st.integers(1, 255))
def test_a_damaged_byte_is_told(made: Expectations, position: int, change: int) -> None:
    data = bytearray(encode(made, None))
    data[position % len(data)] ^= change
    with pytest.raises(TableError, match="the data file x is damaged"):
        decode(bytes(data), "x", None)


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"base": null, "sections": 1}', b"\xff", b'{"base": "2.8.0"}'])
def test_a_file_with_the_right_checksum_and_other_content_is_told(body: bytes) -> None:
    data = f"{MAGIC} {hashlib.sha256(body).hexdigest()}\n".encode() + body
    with pytest.raises(TableError, match="the data file x"):
        decode(data, "x", None)


def test_a_release_without_lists_is_told() -> None:
    with pytest.raises(UnknownName, match=r"2\.7\.1"):
        load_expectations("2.7.1")


def _broken(document: Any, random: Random) -> Any:
    """A copy of ``document`` of which one part, anywhere, is gone or something else."""
    broken = part = json.loads(json.dumps(document))
    while True:
        key = random.choice(list(part)) if isinstance(part, dict) else random.randrange(len(part))
        inner = part[key]
        if isinstance(inner, (dict, list)) and inner and random.random() < 0.6:
            part = inner
            continue
        if random.random() < 0.3:
            del part[key]
        else:
            part[key] = random.choice([None, "", -1, 1e400, [], {}, ["a"], {"a": 1}, True, "x y", "*", [[]], {"": ""}])
        return broken


def test_any_sealed_document_is_read_or_refused() -> None:
    """By hand, 100,000 of them: ``FUZZ=100000 pytest plugins/mpsprobe-tables/tests/test_expectations.py -k sealed``."""
    first = DATA / f"torch-{expectation_releases()[0]}.expectations"
    document = json.loads(first.read_bytes().partition(b"\n")[2])
    document["sections"] = {
        name: {value: " ".join(names.split(" ")[:5]) for value, names in groups.items()}
        for name, groups in document["sections"].items()
    }
    random, refused = Random(20), 0
    for _ in range(int(os.environ.get("FUZZ", "500"))):
        try:
            read = decode(seal(MAGIC, _broken(document, random)), "made", None)
        except TableError:
            refused += 1
            continue
        for listed in (*read.lists.values(), *read.gradient_lists.values()):
            for entry in listed:
                read.expected(entry, "float32")
                read.expected(entry, "complex64", gradient=True)
    assert refused > 0
