"""Training by LoRA: adapters alone are trained, and the report says so."""

from __future__ import annotations

import dataclasses
import sys
from typing import Any

import pytest
import torch
from meta_forward import build_on_meta, run_on_meta

import mpsprobe
from mpsprobe.errors import MissingPackage, UsageError, WorkloadError
from mpsprobe.protocols import RunOptions, TorchRun
from mpsprobe.schemas import CoverageReport
from mpsprobe.stepping import TorchStep
from mpsprobe_hf.auto_models.model_types import load
from mpsprobe_hf.catalog import entries
from mpsprobe_hf.workload import NamedWorkload, named

SMALL = {"n_embd": 32, "n_layer": 2, "n_head": 4}
RELEASE = "2.13.0"


def built(dtype: str = "float32", **options: Any) -> tuple[TorchRun, RunOptions]:
    entry = dataclasses.replace(entries()["gpt2"], config={**entries()["gpt2"].config, **SMALL})
    asked = RunOptions(phase="training", batch_size=2, seq_len=8, dtype=dtype, lora=True, **options)
    return NamedWorkload(entry).build(asked), asked


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_a_step_changes_the_adapters_alone(dtype: str) -> None:
    run, asked = built(dtype, lora_rank=4)
    before = {name: one.detach().clone() for name, one in run.model.named_parameters()}
    step = TorchStep(run, asked, "cpu")
    step.take()
    step.take()  # in the first, A's gradient is zero, because B is
    changed = {name for name, one in run.model.named_parameters() if not torch.equal(one, before[name])}
    assert changed and all(".lora_" in name for name in changed)
    assert any("c_attn.lora_A" in name for name in before) and not any("lm_head.lora" in name for name in before)
    assert not step.notes
    adapters = {one.dtype for name, one in run.model.named_parameters() if ".lora_" in name}
    assert adapters == {torch.float32}, "as peft keeps them next to smaller weights"
    assert {one.shape[0] for name, one in run.model.named_parameters() if ".lora_A." in name} == {4}


@pytest.mark.parametrize("name", ["vit-base", "whisper-tiny", "t5-small", "clip", "segformer"])
def test_every_kind_of_model_takes_adapters(name: str) -> None:
    run = build_on_meta(named(name), phase="training", lora=True)
    assert {".lora_" in one for one, p in run.model.named_parameters() if p.requires_grad} == {True}
    run_on_meta(run, training=True)


def test_a_report_has_the_rank() -> None:
    found = mpsprobe.coverage("distilbert", torch=RELEASE, phase="training", lora=True, lora_rank=8)
    assert isinstance(found, CoverageReport)
    assert found.failure is None and found.workload.lora_rank == 8
    assert found.workload.trained == sum(8 * (i + o) for i, o in [(768, 768)] * 4 + [(768, 3072)] * 2) * 6
    assert found.workload.parameters == 66_362_880 + found.workload.trained
    whole = mpsprobe.coverage("distilbert", torch=RELEASE, phase="training", size="small")
    assert (whole.workload.lora_rank, whole.workload.trained) == (None, None)


def test_a_model_type_takes_adapters_and_one_without_linear_layers_cannot() -> None:
    run = build_on_meta(load("hf:vit"), phase="training", lora=True)
    run_on_meta(run, training=True)
    with pytest.raises(WorkloadError, match="it has no linear layers"):
        load("hf:resnet").build(RunOptions(phase="training", lora=True))


def test_peft_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(MissingPackage, match="--lora needs the package peft") as caught:
        built()
    assert caught.value.hint == 'Install it: pip install "peft"'


def test_wrong_use() -> None:
    for options, said in (
        ({"phase": "inference", "lora": True}, "--lora makes sense with --phase training only"),
        ({"phase": "training", "lora_rank": 4}, "--lora-rank makes sense with --lora only"),
        ({"phase": "training", "lora": True, "lora_rank": 0}, "--lora-rank takes a whole number from 1"),
    ):
        with pytest.raises(UsageError, match=said):
            mpsprobe.coverage("gpt2", torch=RELEASE, **options)  # type: ignore[arg-type]
    # A model that is handed over brings its own.
    with pytest.raises(UsageError, match="does not take --lora") as caught:
        mpsprobe.coverage(torch.nn.Linear(2, 2), torch.ones(1, 2), torch=RELEASE, phase="training", lora=True)
    assert "get_peft_model" in str(caught.value.hint)
