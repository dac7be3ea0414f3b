"""Pipelines by their folder, and by their repository of the Hub."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import mpsprobe
from mpsprobe.errors import UnknownName, WorkloadError
from mpsprobe.plugins.registry import get_registry
from mpsprobe_hf.diffusers.names import TARGET, declare, place_of
from mpsprobe_hf.diffusers.workload import load

UNET: dict[str, Any] = {
    "_class_name": "UNet2DModel",
    "sample_size": 8,
    "block_out_channels": [32, 32],
    "down_block_types": ["DownBlock2D", "DownBlock2D"],
    "up_block_types": ["UpBlock2D", "UpBlock2D"],
    "layers_per_block": 1,
    "of_a_newer_release": True,
}
INDEX: dict[str, Any] = {
    "_class_name": "DDPMPipeline",
    "unet": ["diffusers", "UNet2DModel"],
    "scheduler": ["diffusers", "DDPMScheduler"],
}


def saved(folder: Path, index: dict[str, Any] | None = None, unet: dict[str, Any] | None = None) -> Path:
    """The configurations of a pipeline, as ``save_pretrained`` lays them out."""
    for name in ("unet", "scheduler"):
        (folder / name).mkdir(parents=True)
    (folder / "model_index.json").write_text(json.dumps({**INDEX, **(index or {})}), encoding="utf-8")
    (folder / "unet" / "config.json").write_text(json.dumps({**UNET, **(unet or {})}), encoding="utf-8")
    (folder / "scheduler" / "scheduler_config.json").write_text(
        json.dumps({"num_train_timesteps": 10}), encoding="utf-8"
    )
    return folder


def test_a_folder_and_its_part(tmp_path: Path) -> None:
    folder = str(saved(tmp_path / "saved"))
    report = mpsprobe.coverage(folder, torch="2.13.0")
    assert (report.workload.architecture, report.failure) == ("DDPMPipeline", None)
    part = load(f"{folder}/unet").describe()
    assert (part["part"], part["components"]["unet"]["config"]["sample_size"]) == ("unet", 8)
    with pytest.raises(UnknownName, match="unte"):
        load(f"{folder}/unte")


def test_it_goes_before_guesses_of_other_plugins(tmp_path: Path) -> None:
    folder = saved(tmp_path / "saved")
    for name in (str(folder), str(folder / "unet"), "black-forest-labs/FLUX.1-dev"):
        assert get_registry().workload_and_owner(name)[0].target == TARGET
    assert declare("google-bert/bert-base-uncased") is None


def test_a_repository_in_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    assert place_of("someone/something") is None
    repository = tmp_path / "models--someone--something"
    saved(repository / "snapshots" / "0123")
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("0123", encoding="ascii")
    assert load("someone/something").describe()["pipeline"] == "DDPMPipeline"
    assert load("diffusers:someone/something/unet").describe()["part"] == "unet"


def test_a_repository_of_the_catalog() -> None:
    found = load("stabilityai/stable-diffusion-xl-base-1.0/unet").describe()
    assert found["part"] == "unet" and "nothing was fetched" in found["notes"][-1]
    with pytest.raises(WorkloadError, match="neither in the cache") as caught:
        load("diffusers:someone/something")
    assert "hf download someone/something" in str(caught.value.hint)


def test_what_is_refused(tmp_path: Path) -> None:
    cases: list[tuple[dict[str, Any], dict[str, Any], str]] = [
        ({"unet": ["my_module", "Net"]}, {}, "its own Python code"),
        ({"unet": ["../x", "Net"]}, {}, "its own Python code"),
        ({"_class_name": ["pipeline", "Own"]}, {}, "its own Python code"),
        ({}, {"layers_per_block": 10**9}, "layers_per_block"),
        ({"vae": ["diffusers", "AutoencoderKL"]}, {}, "has no vae/config.json"),
    ]
    for number, (index, unet, message) in enumerate(cases):
        with pytest.raises(WorkloadError, match=message):
            load(str(saved(tmp_path / f"{number}", index, unet)))
    folder = saved(tmp_path / "damaged")
    for text in ("[]", "{", "\x00"):
        (folder / "unet" / "config.json").write_text(text, encoding="utf-8")
        with pytest.raises(WorkloadError, match=r"config\.json"):
            load(str(folder))
