"""``mpsprobe kernels learn``; what it finds is tested in ``tests/audit/test_learn.py``."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from mpsprobe.errors import OutputError
from mpsprobe_coverage.judging.lists import FILE, Learned
from mpsprobe_coverage.kernels.releases import data_folder
from mpsprobe_tables.commands.learn import DIFFERENT, learn
from mpsprobe_tables.encoding import encode_lists

MADE = encode_lists(
    [Learned(("9.0.0", "9.0.1"), {"aten::x": {"int8": "x", "bool": "x"}}, {}, {"aten::y": frozenset({"int8"})})], {}
)


def _run(monkeypatch: pytest.MonkeyPatch, data: bytes, *arguments: str) -> Result:
    monkeypatch.setattr("mpsprobe_tables.audit.learn.learn", lambda _progress, _jobs: data)
    return CliRunner().invoke(learn, list(arguments), catch_exceptions=False)


def test_what_was_learned_is_written_and_counted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    result = _run(monkeypatch, MADE, "-o", str(tmp_path / "made"))
    assert (tmp_path / "made").read_bytes() == MADE
    assert "9.0.0, 9.0.1: 2 refused, 0 not claimed, 1 taken" in result.output
    assert "NOT the file of this package" in result.output
    assert result.exit_code == 0


def test_check_compares_with_the_file_of_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _run(monkeypatch, MADE, "--check").exit_code == DIFFERENT
    shipped = (data_folder() / FILE).read_bytes()
    result = _run(monkeypatch, shipped, "--check")
    assert (result.exit_code, "the same as the file of this package" in result.output) == (0, True)


def test_a_folder_that_is_not_there_is_told_before_the_work(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("mpsprobe_tables.audit.learn.learn", lambda _progress, _jobs: pytest.fail("it worked on"))
    with pytest.raises(OutputError):
        CliRunner().invoke(learn, ["-o", str(tmp_path / "nowhere" / "made")], catch_exceptions=False)
