"""What a machine lacks leaves out whole folders, and the last line of a run says so."""

from __future__ import annotations

import pytest

from tests import left_out
from tests.left_out import NEEDS, ROOT, in_words


def test_each_folder_is_there_and_has_tests() -> None:
    folders = [ROOT / folder for need in NEEDS for folder in need.folders]
    assert not [str(folder) for folder in folders if not list(folder.rglob("test_*.py"))]


def test_the_words_name_folders_and_what_they_need(monkeypatch: pytest.MonkeyPatch) -> None:
    lacking = left_out.Need("lamp", lambda: None, ("plugins/a", "plugins/b"))
    monkeypatch.setattr(left_out, "NEEDS", (lacking, left_out.Need("table", lambda: True, ("plugins/c",))))
    assert in_words() == "Left out on this machine: plugins/a, plugins/b (no lamp)."
    assert left_out.left_out() == {ROOT / "plugins/a": "lamp", ROOT / "plugins/b": "lamp"}
