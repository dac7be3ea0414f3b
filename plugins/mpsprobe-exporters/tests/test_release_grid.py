"""Neighbouring releases that say the same stand together."""

from __future__ import annotations

from example_reports import matrix

from mpsprobe_exporters import release_grid


def test_equal_neighbours_are_one_column() -> None:
    titles = [column.title for column in release_grid.columns(matrix())]
    assert titles == ["1.12.1", "1.13.1-2.0.1", "2.1.0", "2.3.1-2.6.0", "2.9.0-2.14.0", "2.15.0"]
    assert release_grid.columns(matrix().model_copy(update={"releases": []})) == []


def test_operators_that_trouble_the_newest_releases_come_first() -> None:
    assert release_grid.operators(matrix()) == ["aten::linalg_svd", "aten::linalg_qr.out", "aten::as_strided"]


def test_history() -> None:
    assert release_grid.history(matrix(), "aten::linalg_svd") == [
        ("1.12.1-2.1.0", "missing"),
        ("2.3.1-2.14.0", "fallback"),
        ("2.15.0", "·"),
    ]


def test_what_a_stopped_run_did_not_reach_is_not_called_native() -> None:
    made = matrix()
    reached = {name: verdict for name, verdict in made.releases[0].findings.items() if name != "aten::as_strided"}
    first = made.releases[0].model_copy(update={"findings": reached})
    stopped = made.model_copy(update={"releases": [first, *made.releases[1:]]})
    assert release_grid.verdict_at(first, "aten::as_strided") == "?"
    assert release_grid.legends(stopped) == [
        "· native, or not called there",
        "? not met before the run stopped",
    ]
    assert release_grid.legends(made) == ["· native, or not called there"]
    assert release_grid.not_native(first) == "1 unsupported, 2 missing, stopped"


def test_rows_about_the_whole() -> None:
    rows = dict(release_grid.whole_rows(release_grid.columns(matrix())))
    assert rows["native operators"] == ["5 of 8", "5 of 8", "6 of 8", "6 of 8", "7 of 8", "8 of 8"]
    assert rows["run"][:2] == ["stopped", "to its end"]
    newest = matrix().model_copy(update={"releases": matrix().releases[-1:]})
    assert [title for title, _ in release_grid.whole_rows(release_grid.columns(newest))] == ["native operators"]
    assert release_grid.not_native(newest.releases[0]) == "-"
