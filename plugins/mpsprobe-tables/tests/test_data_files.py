"""The data files: the shipped ones are what encoding gives, damage is reported, and what they and a wheel expect."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.version import Version

from mpsprobe.errors import TableError, UnknownName
from mpsprobe_coverage.knowledge.judging import lists
from mpsprobe_coverage.knowledge.judging.lists import Learned
from mpsprobe_coverage.knowledge.kernels import releases
from mpsprobe_coverage.knowledge.kernels.compositions import composition_releases, load_compositions
from mpsprobe_coverage.knowledge.kernels.format import TABLES, apply, data_file, to_table
from mpsprobe_coverage.knowledge.kernels.kernel_facts import FACTS, KernelFacts, facts_releases, load_facts
from mpsprobe_coverage.knowledge.kernels.mps import MPS_FAMILY, load_table
from mpsprobe_coverage.knowledge.kernels.releases import data_folder, library_releases, torch_releases
from mpsprobe_coverage.knowledge.kernels.table import KernelTable
from mpsprobe_tables import expectations, messages, module_marks
from mpsprobe_tables.encoding import changed, encode_compositions, encode_facts, encode_lists, encode_table
from mpsprobe_tables.expectations import Expected, expectation_releases, load_expectations
from mpsprobe_tables.module_marks import load_marks, module_releases
from mpsprobe_tables.own_files import DATA

EMPTY = KernelTable(MPS_FAMILY, "2.12.1", {})
TABLE = KernelTable(
    MPS_FAMILY,
    "2.13.0",
    {"aten::abs": frozenset({"defined", "MPS"}), "torchvision::nms": frozenset({"SparseMPS"})},
    wheel="a.whl",
    sha256="aa",
    commit="c0ffee",
    macos_minimum="14.0",
    requires_torch="==2.13.0",
    markers=frozenset({"one", "two"}),
    only_in_binary={"MPS": ("aten::abs",), "SparseMPS": ("torchvision::nms", "aten::abs")},
    only_declared={"MPS": ("aten::new",)},
)
LATER = KernelTable(
    MPS_FAMILY, "2.14.1", {**TABLE.labels, "aten::abs": frozenset({"defined"}), "aten::new": frozenset({"MPS"})}
)
LOAD_VISION = partial(load_table, library="torchvision")
EXPECTED = partial(expectations.decode, base=None)


@pytest.mark.parametrize(
    ("name", "known", "load", "encode", "folder"),
    [
        ("torch-{}.table", library_releases("torch"), load_table, encode_table, data_folder()),
        ("torchvision-{}.table", library_releases("torchvision"), LOAD_VISION, encode_table, data_folder()),
        ("torch-{}.kernels", facts_releases(), load_facts, encode_facts, data_folder()),
        ("torch-{}.compositions", composition_releases(), load_compositions, encode_compositions, data_folder()),
        ("torch-{}.messages", messages.message_releases(), messages.load_messages, messages.encode, DATA),
        ("torch-{}.expectations", expectation_releases(), load_expectations, expectations.encode, DATA),
        ("torch-{}.modules", module_marks.module_releases(), module_marks.load_marks, module_marks.encode, DATA),
    ],
)
def test_every_shipped_file_is_what_encoding_its_content_gives(
    name: str, known: Sequence[str], load: Callable[..., Any], encode: Callable[..., bytes], folder: Path
) -> None:
    wrong, base = [], None
    for release in known:
        found = load(release)
        wrong += [] if encode(found, base) == (folder / name.format(release)).read_bytes() else [release]
        base = found
    assert len(known) > 10 and not wrong


def test_a_file_that_does_not_fit_is_told() -> None:
    modules: tuple[tuple[Any, Any], ...] = ((expectations, load_expectations), (module_marks, load_marks))
    for module, load in modules:
        older, newer = load("2.12.1"), load("2.13.0")
        assert module.decode(module.encode(newer, None), "x", None) == newer
        with pytest.raises(TableError, match="x does not fit"):
            module.decode(module.encode(newer, older), "x", None)


def test_a_table_comes_back_from_its_difference() -> None:
    for table in (EMPTY, TABLE, LATER):
        for base in (None, EMPTY, TABLE, LATER):
            file = TABLES.decode(encode_table(table, base), "a.table")
            labels = {} if base is None else {name: " ".join(sorted(known)) for name, known in base.labels.items()}
            apply(file.changes["operators"], labels)
            assert to_table(MPS_FAMILY, {**file.header, "later": []}, labels) == table, "a later reader may add keys"
            assert base != table or file.changes == {"operators": {}}
    with pytest.raises(TableError):
        to_table(MPS_FAMILY, {"release": "2.13.0"}, {})


@given(st.integers(0, 10**6), st.integers(1, 255))
def test_a_damaged_file_is_told(position: int, change: int) -> None:
    for whole, read in (
        (encode_table(TABLE, EMPTY), TABLES.decode),
        (encode_facts(NEW, OLD), FACTS.decode),
        ((DATA / "torch-2.8.0.expectations").read_bytes(), EXPECTED),
    ):
        at = position % len(whole)
        for data in (whole[:at] + bytes([whole[at] ^ change]) + whole[at + 1 :], whole[:at]):
            with pytest.raises(TableError, match="x is damaged") as caught:
                read(data, "x")
            assert "Reinstall" in str(caught.value.hint)


def _sealed(magic: str, body: bytes) -> bytes:
    return f"{magic} {hashlib.sha256(body).hexdigest()}\n".encode() + body


def test_a_file_with_the_right_checksum_and_other_content_is_told() -> None:
    for magic, read, *further in (
        (TABLES.magic, TABLES.decode, b'{"operators": 1}', b'{"operators": {"MPS": {"aten": 1}}}'),
        (expectations.MAGIC, EXPECTED, b'{"base": null, "sections": 1}', b'{"base": "2.8.0"}'),
    ):
        for body in (b"", b"[]", b"{}", b"\xff", *further):
            with pytest.raises(TableError, match="the data file x"):
                read(_sealed(magic, body), "x")


def _facts(release: str, kernels: dict[str, str], operators: dict[str, str]) -> KernelFacts:
    split = ({name: frozenset(known.split()) for name, known in part.items()} for part in (kernels, operators))
    return KernelFacts(release, "aa", *split)


OLD = _facts("2.12.0", {"exp": "float half", "sin": "float"}, {"aten::exp": "unary:exp", "aten::put_": "stub:put_stub"})
NEW = _facts(
    "2.13.0",
    {"exp": "float half cast:half", "fmax": "float"},
    {"aten::exp": "unary:exp", "aten::fmax": "binary:fmax binary:maximum"},
)


def test_a_file_of_facts_holds_what_changed() -> None:
    document = json.loads(encode_facts(NEW, OLD).partition(b"\n")[2])
    later = _sealed(FACTS.magic, json.dumps({**document, "later": {"a": 1}}).encode())
    for data in (encode_facts(NEW, OLD), later):
        file = FACTS.decode(data, "x")
        assert (file.release, file.base, file.header["sha256"]) == ("2.13.0", "2.12.0", "aa")
        assert file.changes["kernels"] == {"exp": "cast:half float half", "fmax": "float", "sin": ""}
        assert file.changes["operators"] == {"aten::fmax": "binary:fmax binary:maximum", "aten::put_": ""}


def test_facts_that_do_not_fit_are_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "torch-2.12.0.kernels").write_bytes(encode_facts(OLD, None))
    (tmp_path / "torch-2.13.0.kernels").write_bytes(encode_facts(NEW, None))
    monkeypatch.setattr(releases, "data_folder", lambda: tmp_path)
    _forget()
    try:
        assert load_facts("2.12.0") == OLD
        with pytest.raises(TableError, match=r"2\.13\.0\.kernels does not fit"):
            load_facts("2.13.0")
    finally:
        _forget()


def _forget() -> None:
    for cached in (releases.library_releases, load_facts, data_file):
        cached.cache_clear()  # type: ignore[attr-defined]


def test_the_lists_come_back_and_say_what_changed() -> None:
    known = (
        Learned(("2.12.0",), {"aten::relu": {"int8": "relu"}}, {}, {"aten::relu": frozenset({"bool", "int16"})}),
        Learned(("2.13.0",), {}, {}, {"aten::relu": frozenset({"bool"})}),
    )
    assert lists.decode(encode_lists(known, {"torch": "2.13.0"})) == known
    again = encode_lists((known[0], known[0]), {})
    assert b'"refused": {},\n   "unclaimed": {},\n   "accepted": {}' in again


MOST_BYTES = 60_000


def test_there_is_one_for_each_release_with_lists() -> None:
    assert expectation_releases() == tuple(one for one in torch_releases() if Version(one) >= Version("2.8.0"))
    files = [DATA / f"torch-{release}.expectations" for release in expectation_releases()]
    assert sum(len(file.read_bytes()) for file in files) < MOST_BYTES


def test_each_comes_from_the_wheel_of_its_table() -> None:
    for release in expectation_releases():
        found, table = load_expectations(release), load_table(release)
        assert (found.release, found.wheel, found.sha256) == (release, table.wheel, table.sha256)
        assert len(found.of("entries")) >= 680
        assert len(found.of("forward UNIMPLEMENTED_XFAILLIST")) >= 70
        assert ("supported_complex" in found.sections) != ("unsupported_complex" in found.sections)
        assert bool(found.of("claimed")) == (release not in {"2.8.0", "2.9.0", "2.9.1", "2.10.0"})


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


def test_a_name_that_no_data_file_can_hold_is_told() -> None:
    for name in ("so rt", "", "a\0"):
        with pytest.raises(TableError, match="something is called"):
            changed({name: "*"}, {})


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


def test_what_is_shipped() -> None:
    assert module_releases()[0] == "2.1.0" and "2.13.0" in module_releases()
    marks = load_marks("2.13.0")
    assert marks.modules["nn.Conv3d"] == "skip TestModule * * *"
    assert list(marks.idle()) == ["nn.InstanceNorm3d"]
    with pytest.raises(UnknownName, match=r"2\.0\.0"):
        load_marks("2.0.0")
