"""From lists and entries to what is learned of operators, and ``mpsprobe kernels learn``."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner, Result

from mpsprobe.errors import OutputError
from mpsprobe.progress import SilentProgress
from mpsprobe_coverage.judging.lists import FILE, Learned, decode, learned
from mpsprobe_coverage.kernels.releases import data_folder
from mpsprobe_coverage.kernels.table import MPS
from mpsprobe_tables.audit.entries import entry_named
from mpsprobe_tables.audit.learn import _by_flags, learn, observe, shared_lists, status_of
from mpsprobe_tables.commands import learn as command
from mpsprobe_tables.encoding import encode_lists
from mpsprobe_tables.expectations import expectation_releases, load_expectations

SOME = ("nn.functional.linear", "nn.functional.silu", "abs", "sort", "logspace", "tril", "mm")


@pytest.fixture
def few_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    """A database of a few entries, since the whole one takes minutes, and no mechanism that explains their failures."""
    monkeypatch.setattr("mpsprobe_coverage.judging.chain._ABOUT_KERNELS", {MPS: ()})
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
