"""What is read of a store is what its reports say; so are the rows for analysts, in both formats."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from mpsprobe import schemas
from mpsprobe.errors import MissingPackage
from mpsprobe_atlas import reading
from mpsprobe_atlas.answers import unpack
from mpsprobe_atlas.exports import write_parquet
from mpsprobe_atlas.reading import Judged, architectures, heads
from mpsprobe_atlas.store import Row, Store
from mpsprobe_devkit.testing import CommandResult, run_cli


def test_verdicts_are_as_bad_as_reports_say() -> None:
    assert reading.SEVERITY == schemas.SEVERITY


def test_a_run_has_the_worst_verdict_of_each_operator(real_rows: list[Judged], real: Path) -> None:
    assert len(real_rows) == 4
    for one in real_rows:
        with Store(real) as store:
            row = store.row(*one.row.key)
        assert row is not None and row.answer is not None
        answers = unpack(row.answer)
        assert list(one.runs) == ["2.0.1", "2.6.0", "2.15.0"]
        for release, run in one.runs.items():
            report = schemas.CoverageReport.model_validate(answers.report(release))
            worst: dict[str, str] = {}
            for finding in report.operators:  # the worst come first
                if finding.verdict not in ("native", "composite"):
                    worst.setdefault(finding.operator, finding.verdict)
            assert run.verdicts == worst
            assert [one.findings[number]["operator"] for number in run.findings] == [
                finding.operator for finding in report.operators if finding.verdict not in ("native", "composite")
            ]
            assert run.peak_bytes == (report.memory and report.memory.allocated_bytes)
            assert [*run.advisories] == [advisory.id for advisory in report.advisories]


def test_models_of_one_class_are_one_architecture() -> None:
    classes = {
        "bert-base": "BertModel",
        "bert-large": "BertForMaskedLM",
        "hf:bert": "BertModel",
        "hf:bert/BertForMaskedLM": "BertForMaskedLM",
        "hf:blt": "BltModel",
        "hf:blt_local_encoder": "BltModel",
        "wan2.1-t2v-14b": "WanPipeline",
        "wan2.1-t2v-1.3b": "WanPipeline",
        "timm:bert": "BertModel",
        "model.py:make": "BertModel",
        "hf:dinat": None,
    }
    rows = [Row(name, "real", "inference", "float32", "answered", architecture=one) for name, one in classes.items()]
    assert architectures(rows) == {
        **dict.fromkeys(["bert-base", "bert-large", "hf:bert", "hf:bert/BertForMaskedLM"], "hf:bert"),
        **dict.fromkeys(["hf:blt", "hf:blt_local_encoder"], "hf:blt"),
        **dict.fromkeys(["wan2.1-t2v-14b", "wan2.1-t2v-1.3b"], "wan2.1-t2v-14b"),
        **{name: name for name in ("timm:bert", "model.py:make", "hf:dinat")},
    }


def test_heads_alone_say_the_same(real: Path, real_rows: list[Judged]) -> None:
    with Store(real) as store:
        found = {one.row.key: one for one in heads(store)}
    for one in real_rows:
        short = found[one.row.key]
        assert {release: (run.verdicts, run.state) for release, run in one.runs.items()} == {
            release: (run.verdicts, run.state) for release, run in short.runs.items()
        }


def test_every_operator_that_is_not_native_has_examples(real_rows: list[Judged]) -> None:
    findings = [finding for one in real_rows for finding in one.findings]
    assert len(findings) > 4 and all(finding["examples"] for finding in findings)


def export(store: Path, *arguments: str) -> CommandResult:
    return run_cli("atlas", "export", "--store", str(store), *arguments, process=False)


def exported(store: Path, *arguments: str) -> dict[str, Any]:
    result = export(store, "--to", "json", *arguments)
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
    result = export(real, "--to", "parquet", "-o", str(folder))
    assert result.code == 0, result.stderr
    document = exported(real)
    for name in ("runs", "operators"):
        assert parquet.read_table(folder / f"{name}.parquet").to_pylist() == document[name]
    homeless = export(real, "--to", "parquet")
    assert homeless.code == 2 and "-o FOLDER" in homeless.stderr


@pytest.mark.thorough
def test_a_row_without_an_answer_is_there(large: Path) -> None:
    failed = [one for one in exported(large)["runs"] if one["state"] == "failed"]
    assert failed and all("137" in one["error"] and one["torch"] is None for one in failed)


def test_without_pyarrow(real: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with Store(real) as store, pytest.raises(MissingPackage, match="Parquet needs the package pyarrow"):
        write_parquet(store, tmp_path)
