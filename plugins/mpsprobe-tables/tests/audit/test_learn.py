"""From lists and entries to what is learned of operators: who is blamed, and ``mpsprobe kernels learn``."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner, Result

from mpsprobe.errors import OutputError
from mpsprobe.progress import SilentProgress
from mpsprobe_coverage.knowledge.judging.lists import FILE, Learned, decode, learned
from mpsprobe_coverage.knowledge.kernels.releases import data_folder
from mpsprobe_coverage.knowledge.kernels.table import MPS
from mpsprobe_tables.audit.entries import entry_named
from mpsprobe_tables.audit.learn import (
    Called,
    Observed,
    Status,
    _by_flags,
    blame,
    learn,
    observe,
    shared_lists,
    status_of,
)
from mpsprobe_tables.commands import learn as command
from mpsprobe_tables.encoding import encode_lists
from mpsprobe_tables.expectations import expectation_releases, load_expectations

SOME = ("nn.functional.linear", "nn.functional.silu", "abs", "sort", "logspace", "tril", "mm")


@pytest.fixture
def few_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    """A database of a few entries, since the whole one takes minutes, and no mechanism that explains their failures."""
    monkeypatch.setattr("mpsprobe_coverage.knowledge.judging.chain._ABOUT_KERNELS", {MPS: ()})
    monkeypatch.setattr("mpsprobe_tables.audit.learn.entries", lambda: {key: entry_named(key) for key in SOME})


def test_releases_with_the_same_expectations_share_a_list() -> None:
    groups = shared_lists()
    assert [release for group in groups for release in group] == list(expectation_releases())
    assert {("2.14.0", "2.14.1"), ("2.13.0",)} <= set(groups)
    assert [release for part in learned() for release in part.releases] == list(expectation_releases())


def test_what_a_list_says_of_a_pair() -> None:
    cases = {
        ("nn.functional.linear", "int16"): "fails",
        ("nn.functional.linear", "float32"): "passes",
        ("logspace", "float32"): None,  # listed whatever the dtype: the dtype is not the cause
        ("as_stridedpartial_views", "float32"): None,  # numbers
        ("multinomial", "float32"): "passes",
        ("arange", "uint8"): None,  # ON_MPS_XFAILLIST: a negative number
        ("addr", "int16"): None,  # numbers: UNDEFINED_XFAILLIST
        ("empty", "float32"): None,  # skipped
        ("abs", "complex64"): "passes",
        ("linalg.qr", "complex64"): "unclaimed",
        ("linalg.inv", "complex64"): "fails",
        ("linalg.inv", "int16"): None,  # not even the CPU
    }
    expected = load_expectations("2.13.0")
    assert {case: status_of(expected, case[0], entry_named(case[0]), case[1]) for case in cases} == cases


@pytest.mark.usefixtures("few_entries")
def test_entries_are_observed_on_the_device_of_the_release() -> None:
    found = {one.entry: one for one in observe("int16", (("2.13.0",),))[("2.13.0",)]}
    assert ("aten::linear", "int16") in found["nn.functional.linear"].calls
    assert not found["nn.functional.linear"].explained
    assert found["nn.functional.silu"].explained  # the CPU has no kernel either
    assert found["abs"].status == "passes"
    assert ("aten::abs.out", "int16") in found["abs"].calls
    sorts = {one for operator, one in found["sort"].calls if operator == "aten::sort.stable"}
    assert {"int16>int64", "int16>int64 with descending", "int16>int64 with stable, descending"} <= sorts


def test_samples_with_other_flags_come_first() -> None:
    made = [SimpleNamespace(args=(size,), kwargs={"stable": flag}) for flag in (False, True) for size in (1, 2, 3)]
    found = [(one.args[0], one.kwargs["stable"]) for one in _by_flags(made)]
    assert found == [(1, False), (1, True), (2, False), (3, False), (2, True), (3, True)]


def test_what_the_mechanism_refuses_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mpsprobe_tables.audit.learn.entries", lambda: {SOME[0]: entry_named(SOME[0])})
    [found] = observe("int16", (("2.13.0",),))[("2.13.0",)]
    assert (found.status, found.explained) == ("fails", True)


@pytest.mark.usefixtures("few_entries")
def test_the_data_file_holds_what_was_learned() -> None:
    data = learn(SilentProgress(), dtypes=("int16",))
    [known] = [one for one in decode(data) if "2.13.0" in one.releases]
    assert known.refused == {"aten::linear": {"int16": "nn.functional.linear"}}
    assert "int16" in known.accepted["aten::abs.out"]
    assert "int16" not in known.accepted.get("aten::linear", ())
    assert learn(SilentProgress(), dtypes=("int16",)) == data


MADE = encode_lists(
    [Learned(("9.0.0", "9.0.1"), {"aten::x": {"int8": "x", "bool": "x"}}, {}, {"aten::y": frozenset({"int8"})})], {}
)


def _run(monkeypatch: pytest.MonkeyPatch, data: bytes, *arguments: str) -> Result:
    monkeypatch.setattr("mpsprobe_tables.audit.learn.learn", lambda _progress, _jobs: data)
    return CliRunner().invoke(command.learn, list(arguments), catch_exceptions=False)


def test_what_was_learned_is_written_and_counted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    result = _run(monkeypatch, MADE, "-o", str(tmp_path / "made"))
    assert (tmp_path / "made").read_bytes() == MADE
    assert "9.0.0, 9.0.1: 2 refused, 0 not claimed, 1 taken" in result.output
    assert "NOT the file of this package" in result.output
    assert result.exit_code == 0


def test_check_compares_with_the_file_of_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _run(monkeypatch, MADE, "--check").exit_code == command.DIFFERENT
    shipped = (data_folder() / FILE).read_bytes()
    result = _run(monkeypatch, shipped, "--check")
    assert (result.exit_code, "the same as the file of this package" in result.output) == (0, True)


def test_a_folder_that_is_not_there_is_told_before_the_work(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("mpsprobe_tables.audit.learn.learn", lambda _progress, _jobs: pytest.fail("it worked on"))
    with pytest.raises(OutputError):
        CliRunner().invoke(command.learn, ["-o", str(tmp_path / "nowhere" / "made")], catch_exceptions=False)


def _seen(entry: str, status: Status, *calls: Called, dtype: str = "int8", explained: bool = False) -> Observed:
    return Observed(entry, frozenset({entry}), dtype, status, frozenset(calls), explained)


def _fails(entry: str, *calls: Called) -> Observed:
    return _seen(entry, "fails", *calls)


ADD, SUM, SILU = ("aten::add.Tensor", "int8"), ("aten::sum", "int8>int64"), ("aten::silu", "int8")
SORT, SOLVE, FLOAT_SILU = ("aten::sort", "int8"), ("aten::_solve", "int8"), ("aten::silu", "float32")
POOL, MAXIMUM = ("aten::max_pool2d_with_indices", "int8>int64"), ("aten::maximum", "int8")
PUT, ADDED_UP = ("aten::_index_put_impl_", "int8"), ("aten::_index_put_impl_", "int8 with accumulate")
SORTS = [("aten::sort.stable", "int8"), ("aten::sort.stable", "int8 with descending")]
SWISH, PUT_PASSES = _seen("swish", "passes", SILU), _seen("put", "passes", PUT)
BOTH = dict.fromkeys((PUT, ADDED_UP), "index_put")
FAILS: dict[str, tuple[list[Observed], dict[Called, str]]] = {
    "the operator of its own name": ([_fails("silu", ADD, SUM, SILU)], {SILU: "silu"}),
    "what passes elsewhere is taken": ([_fails("silu", ADD, SILU), SWISH], {ADD: "silu"}),
    "nobody where nothing is left": ([_fails("sort", SORT), _seen("msort", "passes", SORT)], {}),
    "of several the nearest name": ([_fails("max_pool2d", POOL, ADD)], {POOL: "max_pool2d"}),
    "a part of a name is not near": ([_fails("max", POOL, MAXIMUM)], {MAXIMUM: "max"}),
    "what explains most": ([_fails("a", SOLVE, ADD), _fails("b", SOLVE, SUM), _fails("c", SOLVE)], {SOLVE: "a"}),
    "nobody by a guess": ([_fails("silu", ADD, SUM)], {}),
    "what an own entry refuses explains others": ([_fails("silu", SILU), _fails("net", SILU, ADD)], {SILU: "silu"}),
    "not calls without the dtype of the entry": ([_fails("silu", FLOAT_SILU)], {}),
    "nobody for what the mechanism or the CPU explains": ([_seen("silu", "fails", SILU, explained=True)], {}),
    "other dtypes may be taken": (
        [_fails("silu", SILU), _seen("silu", "passes", FLOAT_SILU, dtype="float32")],
        {SILU: "silu"},
    ),
    "the flag that explains more entries": (
        [_fails("index_put", PUT, ADDED_UP), _fails("masked_put_accumulate", ADDED_UP)],
        {ADDED_UP: "index_put"},
    ),
    "a flag is not taken with its operator": (
        [_fails("index_put", PUT, ADDED_UP), PUT_PASSES],
        {ADDED_UP: "index_put"},
    ),
    "each flag where no entry tells them apart": ([_fails("index_put", PUT, ADDED_UP)], BOTH),
    "each flag of a variant": ([_fails("sort", *SORTS)], dict.fromkeys(SORTS, "sort")),
}
UNCLAIMED: dict[str, tuple[list[Observed], dict[Called, str]]] = {
    "the operator of its own name": ([_seen("silu", "unclaimed", SILU, ADD)], {SILU: "silu"}),
    "the only one, whatever its name": ([_seen("net", "unclaimed", SUM)], {SUM: "net"}),
    "one of two": ([_seen("net", "unclaimed", SUM, ADD)], {}),
    "what passes elsewhere": ([_seen("silu", "unclaimed", SILU), SWISH], {}),
    "one with several flags": ([_seen("net", "unclaimed", PUT, ADDED_UP)], dict.fromkeys((PUT, ADDED_UP), "net")),
    "one with a flag, and another": ([_seen("net", "unclaimed", PUT, SUM)], {}),
}


def test_who_is_to_blame() -> None:
    found = {name: blame(seen).refused for name, (seen, _) in FAILS.items()}
    assert found == {name: refused for name, (_, refused) in FAILS.items()}


def test_what_is_not_claimed_blames_own_operators_alone() -> None:
    found = {name: blame(seen) for name, (seen, _) in UNCLAIMED.items()}
    assert {name: one.unclaimed for name, one in found.items()} == {name: one for name, (_, one) in UNCLAIMED.items()}
    assert not any(one.refused for one in found.values())


def test_what_passing_entries_call_is_taken() -> None:
    taken = {name: blame(seen).accepted for name, (seen, _) in FAILS.items()}
    assert {name: one for name, one in taken.items() if one} == {
        "what passes elsewhere is taken": {SILU},
        "nobody where nothing is left": {SORT},
        "other dtypes may be taken": {FLOAT_SILU},
        "a flag is not taken with its operator": {PUT},
    }
