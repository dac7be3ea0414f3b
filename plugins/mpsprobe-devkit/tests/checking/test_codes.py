"""Each code: a plugin that has just this fault gets just this code, and a sound one gets none."""

from __future__ import annotations

from pathlib import Path

import pytest
from broken_projects import BROKEN, ELSEWHERE
from made_projects import codes, make_project

from mpsprobe_devkit.checking import CODES, check_plugin
from mpsprobe_devkit.checking.codes import GROUPS, LEVELS
from tests.thorough import all_but


def test_every_code_has_a_plugin_that_is_broken_so() -> None:
    assert set(BROKEN) | ELSEWHERE == set(CODES)
    assert not set(BROKEN) & ELSEWHERE


@pytest.mark.parametrize("code", all_but(lambda code: "hangs" not in code or code == "hook-hangs", BROKEN))
@pytest.mark.usefixtures("untimed")
def test_a_plugin_with_one_fault_gets_one_code(code: str, tmp_path: Path) -> None:
    case = BROKEN[code]
    project = make_project(tmp_path, case.code, modules=case.modules, changes=case.changes)
    findings = check_plugin(project, time_limit=1 if "within" in case.says else 10)
    assert codes(findings) == [code]
    assert case.says in findings[0].message
    assert case.where in findings[0].where
    assert findings[0].level == CODES[code].level
    assert findings[0].hint


def test_a_sound_plugin_has_no_findings(tmp_path: Path) -> None:
    assert check_plugin(make_project(tmp_path)) == []


@pytest.mark.parametrize("code", CODES)
def test_a_code_is_described(code: str) -> None:
    entry = CODES[code]
    assert code == code.lower()
    assert " " not in code
    assert entry.level in LEVELS
    assert entry.group in GROUPS
    for text in (entry.summary, entry.why):
        assert text.endswith(".")
        assert text.isprintable()
    assert entry.what_to_do.isprintable()
