"""The files of the site: they hold what the store says, they are small, and only our folder is written again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mpsprobe_atlas.reading import Judged, judged
from mpsprobe_atlas.site.data import LETTERS, SiteData
from mpsprobe_atlas.site.writing import files
from mpsprobe_atlas.store import Store
from mpsprobe_devkit.testing import CommandResult, run_cli

MOST_BYTES = 12_000_000


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
