"""What is refused, and what lists and descriptions say."""

from __future__ import annotations

import importlib.util
import json

import pytest

from mpsprobe.errors import MissingPackage, UnknownName, UsageError
from mpsprobe.protocols import RunOptions
from mpsprobe_devkit.testing import run_cli, workload_contract
from mpsprobe_hf.catalog import pipelines
from mpsprobe_hf.diffusers.names import declare, named, space
from mpsprobe_hf.diffusers.workload import load

DECLARED = {one.name: one for one in named()}


def test_each_pipeline_is_listed_under_its_family() -> None:
    assert DECLARED.keys() == pipelines().keys() and len(DECLARED) >= 20
    listed = run_cli("workloads", "list", process=False).stdout
    assert all(f"  {name} " in listed for name in DECLARED)
    found = {one.name: one.target for one in space("diffusers")}
    assert {"diffusers:sdxl", "diffusers:StableDiffusionXLPipeline"} <= set(found)


def test_names() -> None:
    assert declare("bert-base") is None
    found = declare("diffusers:sdxl/unet")
    assert found is not None and found.name == "diffusers:sdxl/unet"
    for name, nearest in (
        ("diffusers:sdlx", "sdxl"),
        ("diffusers:FluxPipelin", "FluxPipeline"),
        ("diffusers:sdxl/unte", "unet"),
        ("diffusers:flux.1-dev/unet", None),
        ("diffusers:", None),
    ):
        with pytest.raises(UnknownName) as caught:
            load(name)
        assert (nearest in caught.value.nearest) if nearest else caught.value.hint, name


def test_what_a_pipeline_cannot_do() -> None:
    for name, options, message in (
        ("sdxl", RunOptions(weights=True), "random weights"),
        ("sdxl", RunOptions(seq_len=128), "no sequences"),
        ("sdxl", RunOptions(phase="generate"), "no generate phase"),
        ("sdxl", RunOptions(batch_size=0), "batch size"),
        ("diffusers:sdxl/vae", RunOptions(phase="training"), "it is the unet"),
    ):
        with pytest.raises(UsageError, match=message):
            load(name).build(options)


@pytest.mark.parametrize("package", ["diffusers", "transformers", "peft"])
def test_a_package_that_is_not_there(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    own = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == package else own(name, *rest))
    with pytest.raises(MissingPackage, match=package) as caught:
        workload = load("sdxl")
        assert package == "peft"
        workload.build(RunOptions(phase="training", lora=True))
    assert "pip install" in (caught.value.hint or "")


def test_a_class_whose_package_is_not_installed_names_it() -> None:
    if importlib.util.find_spec("sentencepiece") is None:
        with pytest.raises(MissingPackage, match="sentencepiece"):
            load("diffusers:KolorsPipeline")
    else:
        assert load("diffusers:KolorsPipeline").describe()["pipeline"] == "KolorsPipeline"


def test_a_description_has_sizes_and_parts() -> None:
    facts = json.loads(json.dumps(load("diffusers:flux.1-dev").describe()))
    assert facts["checkpoint"] == "black-forest-labs/FLUX.1-dev"
    assert facts["components"]["text_encoder_2"]["config"]["d_model"] == 4096
    assert {"transformer", "vae", "vae-encoder", "step"} <= set(facts["parts"])


TestSmallest = workload_contract(DECLARED["lcm-dreamshaper"])
