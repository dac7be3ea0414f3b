"""``mpsprobe kernels audit``, as a user runs it, on a few entries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from mpsprobe.errors import MpsprobeError, OutputError, UnknownName, UsageError
from mpsprobe_coverage.commands.kernels import kernels
from mpsprobe_tables.audit import result as audit_result
from mpsprobe_tables.audit.running import Pair, Raised, Ran
from mpsprobe_tables.commands.audit import audit

FEW = ("--entry", "abs", "--entry", "linalg.eig", "--entry", "nn.functional.dropout", "--jobs", "1")


def _run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(kernels, ["audit", *map(str, arguments)], catch_exceptions=False)


def test_a_table() -> None:
    output = _run("--torch", "2.13.0", "--dtype", "float32", *FEW).output
    assert output.startswith("torch 2.13.0 against the expectations of its own tests\nabs, linalg.eig, nn.functional.")
    lines = [line.split() for line in output.splitlines()]
    share, found = ["1.000", "/", "1.000"], ["(1/1)"]  # of verdicts alone, how many of those that fail are found
    verdicts, outcome = (line[1:] for line in lines if line[:1] == ["float32"])
    assert verdicts == ["0", *share, *found, *share, *found] and outcome == ["3", "1", *share, *share]
    assert ["UNIMPLEMENTED_XFAILLIST", "1", "1", "-", "-", "-"] in lines
    assert "of 1 entries listed as unimplemented for every dtype, 1 are refused (recall 1.000)" in output
    assert "of what passes in float32, none is refused (precision 1.000)" in output


def test_markdown_to_a_file(tmp_path: Path) -> None:
    target = tmp_path / "audit.md"
    result = _run(
        "--torch", "2.13.0", "--dtype", "bool,int64", *FEW, "--lists", "none", "--format", "markdown", "-o", target
    )
    assert result.output == ""
    page = target.read_text(encoding="utf-8")
    assert page.startswith("# How far to trust a verdict: the audit\n")
    assert "| int64 | 1 | 0 | 0 | - | - |" in page
    assert "## Other releases" not in page


def test_modules_that_are_asked_for() -> None:
    chosen = ("--torch", "2.13.0", "--dtype", "float32", *FEW, "--module", "nn.Conv3d", "--module", "nn.InstanceNorm3d")
    page = _run(*chosen, "--format", "markdown").output
    assert "| 2.13.0 | 12 | 0 | 0 | 0 | 4 | 0 | 8 | 0 | - / - |" in page
    assert "Marks that never act: those of `nn.InstanceNorm3d` (2.13.0 to 2.13.0)" in page


@pytest.mark.thorough
def test_several_releases() -> None:
    page = _run(
        "--torch", "all", "--dtype", "float32", "--entry", "linalg.qr", "--jobs", "1", "--format", "markdown"
    ).output
    section = page.partition("## Other releases")[2]
    rows = [line.split(" | ") for line in section.splitlines() if line.startswith("| 2.")]
    assert [row[0] for row in rows[:3]] == ["| 2.8.0", "| 2.9.0", "| 2.9.1"]


def test_bad_input() -> None:
    for arguments, error, text in (
        (("--torch", "2.7.0"), UsageError, "torch 2.7.0 has no list of expectations"),
        (("--torch", "2.7.1"), UsageError, "mpsprobe kernels audit --torch 2."),  # it names those that have one
        (("--torch", "2.99"), UnknownName, "unknown torch release"),
        (("--dtype", "float23"), UnknownName, "did you mean 'float32'"),
        (("--dtype", ","), UsageError, "--dtype needs at least one dtype"),
        (("--dtype", "float64"), UnknownName, "unknown dtype 'float64'"),
        (("--module", "nn.Cnv3d"), UnknownName, "did you mean 'nn.Conv3d'"),
        (("--entry", "lnalg.eig"), UnknownName, "did you mean 'linalg.eig'"),
        (("--entry", "linalg.eig", "--dtype", "bool"), UsageError, "no test runs these entries"),
        (("--lists", "all"), UnknownName, "unknown mode 'all'"),
        (("--jobs", "0"), UsageError, "--jobs takes a whole number from 1"),
        (("-o", "no/such/folder/x"), OutputError, "its folder does not exist"),
    ):
        with pytest.raises(error) as raised:
            _run(*arguments)
        assert text in str(raised.value)


def _audit(monkeypatch: pytest.MonkeyPatch, *pairs: Pair) -> None:
    def run(releases: Any, dtypes: Any, modes: Any, only: Any, *_rest: Any) -> audit_result.Audit:
        return audit_result.summed_up(pairs, releases, dtypes, modes, only)

    monkeypatch.setattr(audit_result, "run_audit", run)


def _pair(entry: str, *raised: Raised) -> Pair:
    return Pair(entry, "float32", runs={("2.13.0", mode): Ran((), raised) for mode in ("none", "neighbours")})


def test_an_error_of_the_device_fails_after_everything_is_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _audit(monkeypatch, _pair("abs", Raised("forward", 3, "KeyError: 'x'", reference_works=True)))
    with pytest.raises(MpsprobeError, match=r"abs with float32 on torch 2\.13\.0: forward of sample 3") as raised:
        audit.main(["--torch", "2.13.0"], standalone_mode=False)
    assert raised.value.exit_code == 2
    printed = capsys.readouterr().out
    assert printed.splitlines()[1].startswith("internal error: abs with float32")
    assert "float32" in printed.partition("\n\n")[2]


def test_fail_under(monkeypatch: pytest.MonkeyPatch) -> None:
    _audit(monkeypatch, _pair("linalg.eig"), _pair("abs"))  # listed, and not refused here
    assert _run("--torch", "2.13.0").exit_code == 0
    assert _run("--torch", "2.13.0", "--fail-under", "0.5").exit_code == 1
    _audit(monkeypatch, _pair("abs"))
    assert _run("--torch", "2.13.0", "--fail-under", "1").exit_code == 0
