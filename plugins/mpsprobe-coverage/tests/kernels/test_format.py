"""The data files: what is written comes back, and what is damaged is told."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpsprobe.errors import TableError
from mpsprobe_coverage.kernels.format import MAGIC, apply, decode, encode, to_table
from mpsprobe_coverage.kernels.table import PLAIN_LABELS, KernelTable

NAMES = st.builds("{}::{}".format, st.sampled_from(["aten", "torchvision"]), st.text("abz_.", min_size=1, max_size=4))
LABELS = st.frozensets(st.sampled_from([*PLAIN_LABELS, "MPS", "SparseMPS"]), min_size=1, max_size=4)
KEYED = st.dictionaries(st.sampled_from(["MPS", "SparseMPS"]), st.lists(NAMES, min_size=1).map(tuple), max_size=2)
TABLES = st.builds(
    KernelTable,
    release=st.sampled_from(["2.13.0", "2.14.1"]),
    library=st.just("torch"),
    wheel=st.text(max_size=10),
    sha256=st.text(max_size=10),
    commit=st.none() | st.text(max_size=10),
    macos_minimum=st.none() | st.just("14.0"),
    requires_torch=st.text(max_size=10),
    labels=st.dictionaries(NAMES, LABELS, max_size=8),
    markers=st.frozensets(st.text(max_size=5), max_size=3),
    only_in_binary=KEYED,
    only_declared=KEYED,
)


def _read_back(data: bytes, base: KernelTable | None) -> KernelTable:
    file = decode(data, "a.table")
    labels = {} if base is None else {o: " ".join(sorted(found)) for o, found in base.labels.items()}
    apply(file.changes, labels)
    return to_table(file.header, labels)


@given(TABLES, st.none() | TABLES)
def test_a_table_comes_back_from_its_difference(table: KernelTable, base: KernelTable | None) -> None:
    data = encode(table, base)
    assert _read_back(data, base) == table
    assert encode(table, base) == data


@given(TABLES)
def test_nothing_but_provenance_is_written_where_nothing_changed(table: KernelTable) -> None:
    assert decode(encode(table, table), "a.table").changes == {}


@given(TABLES, st.integers(0, 10**6), st.integers(1, 255))
def test_a_damaged_byte_is_told(table: KernelTable, position: int, change: int) -> None:
    data = bytearray(encode(table, None))
    data[position % len(data)] ^= change
    with pytest.raises(TableError, match=r"a\.table is damaged") as caught:
        decode(bytes(data), "a.table")
    assert "Reinstall" in str(caught.value.hint)


@given(TABLES, st.integers(0, 10**6))
def test_a_truncated_file_is_told(table: KernelTable, length: int) -> None:
    data = encode(table, None)
    with pytest.raises(TableError):
        decode(data[: length % len(data)], "a.table")


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{}", b'{"operators": 1}', b'{"operators": {"MPS": {"aten": 1}}}', b"\xff"]
)
def test_a_file_with_the_right_checksum_and_other_content_is_told(body: bytes) -> None:
    with pytest.raises(TableError):
        decode(f"{MAGIC} {hashlib.sha256(body).hexdigest()}\n".encode() + body, "a.table")


def test_a_header_that_lacks_something_is_told() -> None:
    with pytest.raises(TableError):
        to_table({"release": "2.13.0"}, {})


def test_a_later_reader_may_add_keys() -> None:
    table = KernelTable("2.13.0", "torch", "", "", None, None, "", {"aten::abs": frozenset({"MPS"})})
    file = decode(encode(table, None), "a.table")
    assert to_table({**file.header, "stubs": []}, {"aten::abs": "MPS"}) == table
