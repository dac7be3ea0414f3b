"""The digest of rules and tables: it follows what judges, and the file that states it is of these."""

from __future__ import annotations

from pathlib import Path

import pytest

from mpsprobe_coverage import rules


def test_what_is_stated_is_the_digest_of_these_files() -> None:
    """If this fails, what judges was changed: ``rules.py`` says how ``rules.txt`` is written anew."""
    assert rules.stated()[0] == rules.digest()


def test_it_follows_each_file_and_nothing_that_python_makes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "HERE", str(tmp_path))
    monkeypatch.setattr(rules, "FILE", str(tmp_path / "rules.txt"))
    (tmp_path / "knowledge" / "data").mkdir(parents=True)
    (tmp_path / "knowledge" / "lists.py").write_bytes(b"A = 1\nB = 2\n")
    first = rules.digest()
    (tmp_path / "knowledge" / "__pycache__").mkdir()
    (tmp_path / "knowledge" / "__pycache__" / "lists.pyc").write_bytes(b"compiled")
    (tmp_path / "other.py").write_bytes(b"")
    (tmp_path / "knowledge" / "lists.py").write_bytes(b"A = 1\r\nB = 2\r\n")
    assert rules.digest() == first
    rules.main([])
    assert rules.stated() == [first]
    (tmp_path / "knowledge" / "data" / "table.json").write_bytes(b"{}")
    second = rules.digest()
    rules.main([rules.SAME])
    assert rules.stated() == [second, first] and second != first
    (tmp_path / "knowledge" / "data" / "table.json").rename(tmp_path / "knowledge" / "table.json")
    rules.main([])
    assert first not in rules.stated() and second not in rules.stated()
