"""The digests of rules and tables: they follow what judges, and the file that states them is of these."""

from __future__ import annotations

from pathlib import Path

import pytest

from mpsprobe_coverage import rules

ENTRY = '[[advisory]]\nid = "{}"\noperators = {}\n'


def test_what_is_stated_is_of_these_files() -> None:
    """If this fails, what judges was changed: ``rules.py`` says how ``rules.txt`` is written anew."""
    stated = rules.stated()
    assert stated._replace(code=stated.code[:1]) == rules.worked_out()


def test_they_follow_each_file_and_nothing_that_python_makes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "HERE", str(tmp_path))
    monkeypatch.setattr(rules, "FILE", str(tmp_path / "rules.txt"))
    data, entries = tmp_path / "knowledge" / "kernels" / "data", tmp_path / "knowledge" / "advisories" / "data"
    for folder in (data, entries, tmp_path / "knowledge" / "__pycache__"):
        folder.mkdir(parents=True)
    code = tmp_path / "knowledge" / "lists.py"
    code.write_bytes(b"A = 1\nB = 2\n")
    (data / "torch-2.6.0.table").write_bytes(b"{}")
    (entries / "norms.toml").write_text(ENTRY.format("a-b", ["aten::mm", "aten::cos"]))
    first = rules.worked_out()
    assert [*first.releases] == ["2.6.0"] and [*first.operators] == ["aten::cos", "aten::mm"]
    (tmp_path / "knowledge" / "__pycache__" / "lists.pyc").write_bytes(b"compiled")
    (tmp_path / "other.py").write_bytes(b"")
    code.write_bytes(b"A = 1\r\nB = 2\r\n")
    assert rules.worked_out() == first
    (data / "torch-2.7.0.table").write_bytes(b"{}")
    (entries / "sums.toml").write_text(ENTRY.format("c-d", ["aten::mm"]))
    second = rules.worked_out()
    assert second.code == first.code and second.releases["2.6.0"] == first.releases["2.6.0"]
    assert first.entries(["aten::cos", "aten::sin"]) == second.entries(["aten::sin", "aten::cos"])
    assert first.entries(["aten::cos", "aten::mm"]) != second.entries(["aten::cos", "aten::mm"])
    rules.main([])
    assert rules.stated() == second
    code.write_bytes(b"A = 2\n")
    rules.main([rules.SAME])
    assert rules.stated().code == (*rules.worked_out().code, *first.code) and len(rules.stated().code) == 2
    code.rename(tmp_path / "knowledge" / "tables.py")
    rules.main([])
    assert rules.stated() == rules.worked_out() and first.code[0] not in rules.stated().code
