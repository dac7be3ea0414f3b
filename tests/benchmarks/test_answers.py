"""The oracle shows each difference by its field, and accepts those that a rule names."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.house.tree import ROOT

ADD = {"operator": "aten::add", "calls": 1}
BEFORE = {"code": 0, "operators": [{"operator": "aten::mm", "calls": 2}, ADD], "notes": ["a", "b"]}
AFTER = {"code": 0, "operators": [ADD, {"operator": "aten::mm", "calls": 3}], "notes": ["a"]}


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))


def test_a_difference_is_that_of_a_field() -> None:
    from answers import differences

    assert [*differences(BEFORE, AFTER)] == [
        ("notes[1]", '"b"', "absent"),
        ("operators[aten::mm].calls", "2", "3"),
        ("operators.order", '["aten::mm", "aten::add"]', '["aten::add", "aten::mm"]'),
    ]
    assert not [*differences(BEFORE, BEFORE)] and [*differences({"a": 1}, {"a": True})]


def test_rules_accept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    import answers

    before, after, reasons = tmp_path / "before", tmp_path / "after", tmp_path / "reasons.toml"
    for path, answer in ((before, BEFORE), (after, AFTER)):
        answers.written(path, {"about": {}, "answers": {"named": {"bert-base": answer, "gpt2": answer}}})

    def compared(text: str) -> int:
        reasons.write_text(text, encoding="utf-8")
        words = ["answers.py", "compare", str(before), str(after), "--accept", str(reasons)]
        monkeypatch.setattr(sys, "argv", words)
        return answers.main()

    calls = "[[accept]]\nwhy = \"more\"\npath = 'operators\\[\\*\\]\\.calls'\n"
    others = '[[accept]]\nwhy = "else"\npath = "(notes|operators).*"\n'
    assert compared(calls) == 1
    said = capsys.readouterr().out
    assert "named bert-base: notes[1] and 1 more alike" in said and "2 accepted: more" in said
    assert compared(calls + others) == 0
    for wrong in ('why = "x"\npath = "nowhere"\n', 'why = "x"\nname = "gpt2"\n', ""):
        with pytest.raises(SystemExit) as ended:
            compared(f"[[accept]]\n{wrong}")
        assert ended.value.code == 2


def test_what_depends_on_the_machine_is_not_in_an_answer(tmp_path: Path) -> None:
    from answer_parts import Asking, canonical

    answer = {"environment": {"python": "3.11"}, "at": f"{tmp_path}/a.py:3", "notes": ["it took 3.2 s"]}
    assert canonical(answer, tmp_path) == {"at": "FOLDER/a.py:3", "notes": ["it took TIME"]}
    asking = Asking(3, 33, 1)
    assert asking.drawn("abcdefgh") == asking.drawn("hgfedcba") and len(asking.drawn("abcdefgh")) == 3
