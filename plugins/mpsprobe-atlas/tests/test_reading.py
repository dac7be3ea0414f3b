"""What is read of a store is what its reports say; so are the rows for analysts, and the files of the site."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mpsprobe import schemas
from mpsprobe.errors import MissingPackage
from mpsprobe_atlas.answers import unpack
from mpsprobe_atlas.exports import write_parquet
from mpsprobe_atlas.reading import Judged, architectures, heads, judged
from mpsprobe_atlas.site.data import LETTERS, SiteData
from mpsprobe_atlas.site.writing import files
from mpsprobe_atlas.store import Row, Store
from mpsprobe_devkit.testing import CommandResult, run_cli

MOST_BYTES = 12_000_000


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
    cases = {
        "bert-base": ("BertModel", "hf:bert"),
        "bert-large": ("BertForMaskedLM", "hf:bert"),
        "hf:bert": ("BertModel", "hf:bert"),
        "hf:bert/BertForMaskedLM": ("BertForMaskedLM", "hf:bert"),
        "hf:blt": ("BltModel", "hf:blt"),
        "hf:blt_local_encoder": ("BltModel", "hf:blt"),
        "wan2.1-t2v-14b": ("WanPipeline", "wan2.1-t2v-14b"),
        "wan2.1-t2v-1.3b": ("WanPipeline", "wan2.1-t2v-14b"),
        "timm:bert": ("BertModel", "timm:bert"),
        "model.py:make": ("BertModel", "model.py:make"),
        "hf:dinat": (None, "hf:dinat"),
    }
    rows = [Row(name, "real", "inference", "float32", "answered", architecture=one) for name, (one, _) in cases.items()]
    assert architectures(rows) == {name: one for name, (_, one) in cases.items()}


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
    document: dict[str, Any] = export(store, "--to", "json", *arguments).json()
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


def read(text: str) -> tuple[str, Any]:
    """The name and the data of a script."""
    assert text.isascii() and not set("<>&") & set(text)
    name, data = json.loads(f"[{text.removeprefix('atlas(').rstrip().removesuffix(')')}]")
    return name, data


@pytest.fixture(scope="module")
def site(real_rows: list[Judged], real: Path) -> Iterator[dict[str, Any]]:
    with Store(real) as store:
        about = store.about()
    written = dict(files(SiteData(real_rows, about)))
    yield {name.removeprefix("data/"): read(text)[1] for name, text in written.items() if name != "index.html"}


def test_the_pages_say_what_the_reports_say(site: dict[str, Any], real_rows: list[Judged]) -> None:
    index = site["index.js"]
    assert index["releases"] == ["2.15.0", "2.6.0", "2.0.1"]
    for one in real_rows:
        number = [model[0] for model in index["models"]].index(one.row.workload)
        setting = index["settings"].index(list(one.setting))
        states = index["models"][number][3][setting]
        details = site["models-0.js"]["models"][number][str(setting)]
        for at, release in enumerate(index["releases"]):
            run = one.runs[release]
            assert states[at] == LETTERS[run.state]
            findings, peak, wrong, _, fits = details["runs"][details["by"][at]]
            operators = [index["operators"][details["findings"][finding][0]] for finding in findings]
            assert set(operators) == set(run.verdicts) and peak == run.peak_bytes
            assert {index["advisories"][number][0]: calls for number, calls in wrong} == run.advisories
            assert len(fits) == len(index["memory"]) > 5 and set(fits) == {"f"}  # they are small


def test_the_page_of_an_operator(site: dict[str, Any]) -> None:
    index = site["index.js"]
    page = site[f"operator-{index['operators'].index('aten::_ctc_loss')}.js"]
    assert page["history"] == [["n", 0, 0], ["m", 1, 1], ["m", 1, 1]]
    assert [index["models"][model][0] for model, _, _ in page["callers"]] == ["hf:wav2vec2/Wav2Vec2ForCTC"]
    assert page["examples"][0][0].startswith("torch.ops.aten._ctc_loss")
    assert "### `aten::_ctc_loss`" in page["tracker"] and "def samples(device):" in page["samples"]


def test_macs_are_offered_with_the_memory_that_the_answers_are_about(site: dict[str, Any]) -> None:
    machines = {label: memory for label, _, _, memory in site["index.js"]["machines"]}
    assert site["index.js"]["memory"][machines["M2 Pro, 16 GB"]] == 16 * 2**30


@pytest.mark.thorough
def test_six_hundred_models_take_less_than_twelve_megabytes(large: Path) -> None:
    with Store(large) as store:
        data = SiteData(list(judged(store)), store.about())
    sizes = {name: len(text.encode()) for name, text in files(data)}
    assert len(data.models) == 600 and len(data.releases) == 40 and len(data.settings) == 2
    assert sum(sizes.values()) < MOST_BYTES
    assert sizes["data/index.js"] < MOST_BYTES / 20  # what is read before anything is shown


def test_the_command(real: Path, tmp_path: Path) -> None:
    def site(store: Path, folder: Path) -> CommandResult:
        return run_cli("atlas", "site", str(store), "-o", str(folder), process=False)

    folder = tmp_path / "site"
    for _ in range(2):  # a site is written again
        result = site(real, folder)
        assert result.code == 0 and str(folder / "index.html") in result.stdout
        (folder / "data" / "models-9.js").write_text("old", encoding="utf-8")
    assert (folder / "data" / "index.js").is_file()
    mine = tmp_path / "mine" / "mine.txt"
    mine.parent.mkdir()
    mine.write_text("mine", encoding="utf-8")
    result = site(real, mine.parent)
    assert result.code == 2 and "it has other files" in result.stderr
    assert list(mine.parent.iterdir()) == [mine]
    result = site(tmp_path / "none.sqlite", tmp_path / "new")
    assert result.code == 2 and "there is no atlas" in result.stderr and "mpsprobe atlas sweep" in result.stderr
