"""What people wrote about calls on MPS is what mpsprobe says, but for a list that may only become shorter."""

from __future__ import annotations

from collections import Counter

import pytest
from runner import CLASSES, EXPECTED, OUTCOMES, SETS, Judged, judged, known_disagreements, statements, tracer

from mpsprobe_coverage.knowledge.kernels.releases import torch_releases


@pytest.fixture(scope="module")
def verdicts() -> list[Judged]:
    return list(judged(statements()))


@pytest.mark.parametrize("name", SETS)
def test_statements_are_whole(name: str) -> None:
    mine = [statement for statement in statements() if statement.set == name]
    assert len(mine) >= 60
    assert not [name for name, count in Counter(one.id for one in statements()).items() if count > 1]
    assert not [one.id for one in mine if one.kind not in CLASSES]
    assert not [one.id for one in mine if one.expected not in (EXPECTED, (None,))[one.kind in OUTCOMES]]
    assert not [one.id for one in mine if (one.kind in OUTCOMES) != (name == "numbers")]
    assert not [one.id for one in mine if one.torch not in torch_releases() or not one.words]
    assert not [one.id for one in mine if not one.source.startswith("https://github.com/")]
    works = sum(one.wanted in ("native", "right") for one in mine)
    assert works >= {"calls": len(mine) / 3, "reports": 0, "numbers": len(mine) / 4}[name]


def test_mpsprobe_agrees(verdicts: list[Judged]) -> None:
    """Another torch may trace a few of the calls in another way than the one that the list was written with."""
    known = known_disagreements()
    new = [f"{one.statement.id}: {one.says}. {one.because} {one.advisories}" for one in verdicts if not one.agrees]
    new = [text for text in new if text.partition(":")[0] not in known]
    assert len(new) <= (0 if known["tracer"] == tracer() else len(verdicts) // 20), new


def test_the_list_has_no_statement_that_agrees(verdicts: list[Judged]) -> None:
    known = known_disagreements()
    now = {one.statement.id for one in verdicts if not one.agrees}
    gone = known.keys() - {"tracer"} - now
    assert not gone or known["tracer"] != tracer(), f"take {gone} out: python benchmarks/statements.py --write"
