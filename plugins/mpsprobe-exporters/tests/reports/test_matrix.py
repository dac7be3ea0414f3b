"""Neighbouring releases that say the same stand together, the newest first."""

from __future__ import annotations

from example_reports import matrix

from mpsprobe.schemas import MatrixReport
from mpsprobe_exporters import document as model
from mpsprobe_exporters.reports import matrix as reports


def grid(report: MatrixReport) -> model.Grid:
    [found] = [
        block
        for section in reports.document(report).sections
        for block in section.blocks
        if isinstance(block, model.Grid)
    ]
    return found


def test_equal_neighbours_are_one_column() -> None:
    spans = [title for title, _ in model.folded(grid(matrix()))]
    assert spans == ["2.15.0", "2.9.0-2.14.0", "2.3.1-2.6.0", "2.1.0", "1.13.1-2.0.1", "1.12.1"]
    assert not any(
        section.blocks for section in reports.document(matrix().model_copy(update={"releases": []})).sections[:-1]
    )


def test_operators_that_trouble_the_newest_releases_come_first() -> None:
    assert [name for name, _ in grid(matrix()).rows] == ["aten::linalg_svd", "aten::linalg_qr.out", "aten::as_strided"]


def test_history() -> None:
    made = grid(matrix())
    assert model.history(made, dict(made.rows)["aten::linalg_svd"]) == [
        ("2.15.0", "·"),
        ("2.3.1-2.14.0", "fallback"),
        ("1.12.1-2.1.0", "missing"),
    ]


def test_what_a_stopped_run_did_not_reach_is_not_called_native() -> None:
    made = matrix()
    reached = {name: verdict for name, verdict in made.releases[0].findings.items() if name != "aten::as_strided"}
    first = made.releases[0].model_copy(update={"findings": reached})
    stopped = grid(made.model_copy(update={"releases": [first, *made.releases[1:]]}))
    assert dict(stopped.rows)["aten::as_strided"][-1] == "?"
    assert stopped.legend == ["· native, or not called there", "? not met before the run stopped"]
    assert grid(made).legend == ["· native, or not called there"]


def test_rows_about_the_whole() -> None:
    heads = dict(grid(matrix()).heads)
    assert heads["native operators"][:3] == ["8 of 8", "7 of 8", "7 of 8"]
    assert heads["run"][-2:] == ["to its end", "stopped"]
    newest = matrix().model_copy(update={"releases": matrix().releases[-1:]})
    assert [title for title, _ in grid(newest).heads] == ["native operators"]
