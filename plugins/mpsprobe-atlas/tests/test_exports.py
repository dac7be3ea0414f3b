"""Rows for analysts: both formats have the same, and it is what the reports say."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from mpsprobe.errors import MissingPackage
from mpsprobe_atlas.exports import write_parquet
from mpsprobe_atlas.reading import Judged
from mpsprobe_atlas.store import Store
from mpsprobe_devkit.testing import run_cli


def exported(store: Path, *arguments: str) -> dict[str, Any]:
    result = run_cli("atlas", "export", "--store", str(store), "--to", "json", *arguments, process=False)
    assert result.code == 0, result.stderr
    document: dict[str, Any] = json.loads(result.stdout)
    return document


def test_json_has_a_row_for_each_release_and_for_each_operator(real: Path, real_rows: list[Judged]) -> None:
    document = exported(real)
    assert document["about"]["releases"] == ["2.0.1", "2.6.0", "2.15.0"]
    assert len(document["runs"]) == 4 * 3
    wanted = sum(len(run.findings) for one in real_rows for run in one.runs.values())
    assert len(document["operators"]) == wanted > 0
    first = next(one for one in document["operators"] if one["operator"] == "aten::_ctc_loss")
    assert first["verdict"] == "missing" and first["phase"] == "training" and first["examples"] and first["shapes"]
    every = exported(real, "--native")["operators"]
    assert len(every) > 10 * wanted and {"native"} <= {one["verdict"] for one in every}


def test_parquet_has_the_same(real: Path, tmp_path: Path) -> None:
    from pyarrow import parquet

    folder = tmp_path / "rows"
    result = run_cli("atlas", "export", "--store", str(real), "--to", "parquet", "-o", str(folder), process=False)
    assert result.code == 0, result.stderr
    document = exported(real)
    for name in ("runs", "operators"):
        assert parquet.read_table(folder / f"{name}.parquet").to_pylist() == document[name]


@pytest.mark.thorough
def test_a_row_without_an_answer_is_there(large: Path) -> None:
    failed = [one for one in exported(large)["runs"] if one["state"] == "failed"]
    assert failed and all("137" in one["error"] and one["torch"] is None for one in failed)


def test_without_pyarrow(real: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with Store(real) as store, pytest.raises(MissingPackage, match="Parquet needs the package pyarrow"):
        write_parquet(store, tmp_path)


def test_parquet_needs_a_folder(real: Path) -> None:
    result = run_cli("atlas", "export", "--store", str(real), "--to", "parquet", process=False)
    assert result.code == 2 and "-o FOLDER" in result.stderr
