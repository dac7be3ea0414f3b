"""Presets by name and from files."""

from __future__ import annotations

from pathlib import Path

import pytest

from mpsprobe.errors import MpsprobeError
from mpsprobe.plugins.registry import get_registry
from mpsprobe.presets import LARGEST_BYTES, load_preset, preset_names


def test_every_preset_can_be_run() -> None:
    for preset in map(load_preset, preset_names()):
        assert preset.summary and preset.source
        assert {one.name for one in preset.workloads} <= set(get_registry().workloads())
    preset = load_preset("pytorch-mps-2022")  # the announcement has its models and batch sizes
    assert {one.name: one.batch_size for one in preset.workloads} == {"resnet50": 128, "bert-base": 64, "vgg16": 64}
    assert set(preset.phases) == {"inference", "training"} and preset.baseline == "cpu"


def test_a_preset_of_the_users_own(tmp_path: Path) -> None:
    path = tmp_path / "mine.TOML"
    path.write_text('[[workloads]]\nname = "a.py:make"\nseq_len = 7\n', encoding="utf-8")
    preset = load_preset(str(path))
    assert (preset.workloads[0].name, preset.workloads[0].seq_len, preset.phases) == ("a.py:make", 7, ["inference"])


def test_a_wrong_file_says_where(tmp_path: Path) -> None:
    for text, says in (
        ("", "wrong at 'workloads': Field required"),
        ("workloads = []", "at least 1 item"),
        ('[[workloads]]\nname = "a"\nbatch_size = 0', "wrong at 'workloads.0.batch_size'"),
        ('[[workloads]]\nname = "a"\nbatchsize = 1', "wrong at 'workloads.0.batchsize'"),
        ('phases = ["both"]\n[[workloads]]\nname = "a"', "wrong at 'phases.0'"),
        ("[[", "is not TOML"),
        ("\udcff", "is not TOML"),
    ):
        path = tmp_path / "p.toml"
        path.write_bytes(text.encode("utf-8", "surrogateescape"))
        with pytest.raises(MpsprobeError) as caught:
            load_preset(str(path))
        assert says in caught.value.message


def test_what_is_not_there_is_told_in_words(tmp_path: Path) -> None:
    large = tmp_path / "large.toml"
    large.write_bytes(b"#" * (LARGEST_BYTES + 1))
    for name, says in [
        ("pytorch-mps-2023", "did you mean 'pytorch-mps-2022'"),
        (str(tmp_path / "none.toml"), "cannot read the preset"),
        (str(large), "too large"),
        (str(tmp_path / "\0.toml"), "cannot read the preset"),
    ]:
        with pytest.raises(MpsprobeError) as caught:
            load_preset(name)
        assert says in caught.value.message
