"""Every named workload, built without memory and run without data; contracts, and calls that say nothing."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import importlib.util
import logging
import time
from collections.abc import Mapping
from functools import partial
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from meta_forward import binds, build_on_meta, parameters, run_on_meta, tensors
from packaging.version import Version

from mpsprobe.errors import MissingPackage, MpsprobeError, UnknownName, UsageError, WorkloadError
from mpsprobe.protocols import RunOptions, TorchRun
from mpsprobe_devkit.testing import runner_contract, workload_contract
from mpsprobe_hf.catalog import entries
from mpsprobe_hf.catalog.entry import Entry
from mpsprobe_hf.installed import IMPORT_NAMES
from mpsprobe_hf.plugin import mpsprobe_runners, mpsprobe_workloads
from mpsprobe_hf.transformers import workload as workload_module
from mpsprobe_hf.transformers.construct import Mute, mutes, quietly
from mpsprobe_hf.transformers.workload import NamedWorkload, named, published
from tests.thorough import all_but, first_of_each

CASES = [(name, phase) for name, entry in entries().items() for phase in entry.phases]

SECONDS_TO_BUILD = 5.0
"""Of this thread on a processor, on meta; the largest needs a tenth of this. Imports are not counted."""

NEEDS_DATA = {
    ("detr", "training"): "the matcher copies costs to the CPU",
    ("mask2former", "inference"): "makes tensors on the CPU by name",
    ("mask2former", "training"): "makes tensors on the CPU by name",
    ("wav2vec2-base", "training"): "reads the largest label",
    ("hubert", "training"): "reads the largest label",
    ("parakeet-ctc-1.1b", "training"): "masked_select",
    ("rt-detr", "training"): "draws boxes around those that it is given",
    ("bark", "inference"): "the codec reads its paddings",
    ("speecht5", "training"): "masked_select",
    ("tapas", "training"): "copies a mask to the CPU",
}
"""What cannot run without data, and why; ``test_steps`` runs smaller ones of them for real."""
NEEDS_DATA |= {
    (name, phase): reason
    for reason, names in {
        "reads how many patches each image has": "qwen2.5-vl-3b qwen2.5-vl-7b qwen3-vl-2b qwen3-vl-4b qwen3-vl-8b "
        "qwen3.5-0.8b qwen3.5-4b mistral-small-3.1-24b ministral-3-8b lfm2-vl-450m siglip2-base-naflex",
        "looks for images that are padding": "smolvlm smolvlm2-500m granite-docling-258m",
        "counts the tokens of a sound": "voxtral-mini-3b",
        "makes tensors on the CPU": "grounding-dino-tiny",
        "draws how long each sound is": "mms-tts",
    }.items()
    for name in names.split()
    for phase in ("inference", "training")
}
if Version(importlib.metadata.version("transformers")) < Version("5.18"):
    NEEDS_DATA["tapas", "inference"] = "copies a mask to the CPU"

LAYERS = 6
"""That a model takes its step with: every kind of layer is among the first six of each."""
DEPTHS = ("num_hidden_layers", "num_layers", "n_layer", "encoder_layers", "decoder_layers")


def _kind(name: str, phase: str) -> object:
    """By default one model of each class runs, and one of each family trains; ``benchmarks/answers.py`` has all."""
    entry = entries()[name]
    return entry.family if phase == "training" else entry.architecture(phase).model_class


def shortened(config: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration with at most ``LAYERS``."""
    short = dict(config)
    for key, value in config.items():
        if key in DEPTHS:
            short[key] = min(value, LAYERS)
        elif key == "layer_types":
            short[key] = value[:LAYERS]
        elif key in ("text_config", "vision_config"):
            short[key] = shortened(value)
    return short


def step(entry: Entry, phase: str) -> TorchRun:
    """A step of ``entry`` on meta, of fewer layers; in bfloat16 where products of experts need that."""
    dtype = "bfloat16" if "num_experts_per_tok" in entry.config else "float32"
    short = dataclasses.replace(entry, config=shortened(entry.config))
    return build_on_meta(NamedWorkload(short), phase=phase, dtype=dtype)


def missing(name: str, phase: str) -> list[str]:
    wanted = entries()[name].architecture(phase).requires
    return [one for one in wanted if importlib.util.find_spec(IMPORT_NAMES.get(one, one)) is None]


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(("name", "phase"), all_but(first_of_each(_kind, CASES), CASES))
def test_builds_and_runs_on_meta(name: str, phase: str) -> None:
    entry = entries()[name]
    architecture = entry.architecture(phase)
    if absent := missing(name, phase):
        with pytest.raises(MissingPackage) as caught:
            build_on_meta(named(name), phase=phase)
        assert caught.value.distribution == absent[0]
        return
    workload_module.load_classes(entry, architecture)
    started = time.thread_time()
    run = build_on_meta(named(name), phase=phase)
    assert time.thread_time() - started < SECONDS_TO_BUILD
    assert parameters(run.model) == architecture.parameters
    # Some small vectors are made by torch.Tensor(n), which no device context reaches.
    assert sum(one.numel() for one in run.model.parameters() if not one.is_meta) < 10_000
    assert run.model.training == (phase == "training")
    assert run.architecture == type(run.model).__name__
    if run.call is None:
        binds(run)
    if (name, phase) not in NEEDS_DATA:
        output = run_on_meta(step(entry, phase), training=phase == "training")
        assert all(one.is_meta for one in tensors(output))


@pytest.mark.slow
def test_every_model_has_the_size_that_was_published() -> None:
    wrong = {}
    for name, entry in entries().items():
        if not missing(name, "inference"):
            made = parameters(build_on_meta(named(name)).model)
            if made != entry.inference.parameters:
                wrong[name] = (made, entry.inference.parameters)
    assert not wrong


@pytest.mark.parametrize("name", ["llama-3-8b", "whisper-tiny", "t5-small"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_dtype_reaches_parameters_and_inputs(name: str, dtype: str) -> None:
    run = build_on_meta(named(name), dtype=dtype)
    wanted = getattr(torch, dtype)
    found = {one.dtype for one in run.model.parameters()}
    # T5 keeps wo in float32 under float16, as from_pretrained does.
    assert found == ({wanted, torch.float32} if (name, dtype) == ("t5-small", "float16") else {wanted})
    assert {one.dtype for one in tensors(run.kwargs) if one.is_floating_point()} <= {wanted}
    assert torch.get_default_dtype() == torch.float32


@pytest.mark.parametrize("name", all_but(first_of_each(lambda name: entries()[name].family, entries()), entries()))
def test_sizes_are_honoured(name: str) -> None:
    entry = entries()[name]
    if missing(name, "inference"):
        assert entry.inference.requires
        return
    length = (
        None if entry.seq_len is None else max(entry.shortest or 1, min(entry.seq_len, entry.longest or 10**6) // 2)
    )
    run = build_on_meta(NamedWorkload(entry), batch_size=3, seq_len=length)
    assert run.batch_size == 3 and length in (None, run.seq_len)
    tensors = [one for one in run.kwargs.values() if isinstance(one, torch.Tensor)]
    assert {3} <= {one.shape[0] // (one.shape[0] // 3 or 1) for one in tensors}


def test_impossible_options() -> None:
    for name, options in (
        *(("bert-base", {"seq_len": length}) for length in (513, 0)),
        *(("bert-base", {"batch_size": size}) for size in (0, -1, 2**31)),
        ("roberta-base", {"seq_len": 513}),
        ("llava", {"seq_len": 576}),
        ("wav2vec2-base", {"seq_len": 399}),
        *((name, {"seq_len": 8}) for name in ("vit-base", "patchtst")),
        ("bark", {"phase": "training"}),
        ("bert-base", {"weights": True}),
    ):
        with pytest.raises(UsageError) as caught:
            named(name).build(RunOptions(**options))  # type: ignore[arg-type]
        assert caught.value.hint, (name, options)
    with pytest.raises(UnknownName) as unknown:
        named("bert-bsae")
    assert unknown.value.nearest[0] == "bert-base"


def test_a_repository_that_the_catalog_has_needs_no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    cached: list[str] = []
    monkeypatch.setattr("huggingface_hub.try_to_load_from_cache", lambda *_: cached[0] if cached else None)
    monkeypatch.setattr("mpsprobe_hf.transformers.checkpoints.load", Mock(name="load"))
    run = build_on_meta(published("hf:Qwen/Qwen3-0.6B"))
    assert run.architecture == "Qwen3ForCausalLM"
    assert run.notes[0] == "sizes as the workload 'qwen3-0.6b' has them: nothing was fetched"
    assert isinstance(published("Qwen/Qwen3-0.6B").build(RunOptions(weights=True)), Mock)
    cached.append("config.json")
    assert isinstance(published("Qwen/Qwen3-0.6B").build(RunOptions()), Mock)
    with pytest.raises(UnknownName):
        published("Qwen/Qwen3-0.7B")


def _absent(name: str, lacking: str = "transformers.models.bert.modeling_bert") -> Any:
    raise ModuleNotFoundError(f"No module named '{lacking}'", name=lacking)


def _no_distribution(name: str) -> str:
    raise importlib.metadata.PackageNotFoundError(name)


@pytest.mark.parametrize(
    ("changed", "value", "error", "said"),
    [
        ("import_module", _absent, WorkloadError, "does not have.*--upgrade transformers"),
        ("import_module", partial(_absent, lacking="certifi"), WorkloadError, "imported: No module named 'certifi'"),
        ("import_module", lambda _: SimpleNamespace(BertConfig=1), WorkloadError, "BertModel.*--upgrade transformers"),
        ("metadata.version", lambda _: "4.57.1", MpsprobeError, r"transformers 4\.57\.1 is too old: .*needs .*>=5\."),
        ("metadata.version", _no_distribution, MissingPackage, "transformers"),
    ],
)
def test_a_transformers_that_does_not_do(
    monkeypatch: pytest.MonkeyPatch, changed: str, value: Any, error: type[Exception], said: str
) -> None:
    monkeypatch.setattr(f"importlib.{changed}", value)
    with pytest.raises(error, match=f"(?s){said}"):
        named("bert-base").build(RunOptions())


WORKLOADS = {one.name: one for one in mpsprobe_workloads()}
RUNNERS = {one.name: one for one in mpsprobe_runners()}

TestDistilbert = workload_contract(WORKLOADS["distilbert"])
TestResnet = workload_contract(WORKLOADS["resnet50"])
TestBark = pytest.mark.thorough(workload_contract(WORKLOADS["bark"]))  # has no training phase

TestTrainer = runner_contract(RUNNERS["trainer"])
TestAccelerate = pytest.mark.thorough(runner_contract(RUNNERS["accelerate"]))


LIBRARIES = ("transformers", "huggingface_hub")


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What reaches a handler of each library."""
    mutes()  # has the libraries make their own handlers first
    messages: list[str] = []
    for name in LIBRARIES:
        handler = logging.Handler()
        handler.emit = lambda record: messages.append(record.getMessage())  # type: ignore[method-assign]
        monkeypatch.setattr(logging.getLogger(name), "handlers", [*logging.getLogger(name).handlers, handler])
    return messages


def _warn(model: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    for name in LIBRARIES:
        logging.getLogger(f"{name}.some.module").warning("a warning")
        logging.getLogger(f"{name}.some.module").error("an error of %s", name)
    return "done"


def test_warnings_are_held_back_while_a_model_is_called_and_only_then(seen: list[str]) -> None:
    assert quietly(_warn)(None, (), {}) == "done" and seen == ["an error of transformers"]
    _warn(None, (), {})
    assert len(seen) == 1 + 4
    with pytest.raises(ValueError, match="no such size"):
        quietly(Mock(side_effect=ValueError("no such size")))(None, (), {})
    _warn(None, (), {})
    assert len(seen) == 1 + 4 + 4, "they go out again after an error"


def test_the_plain_call_is_the_models_and_touches_no_level(monkeypatch: pytest.MonkeyPatch) -> None:
    assert quietly()(lambda first, second: first + second, (1,), {"second": 2}) == 3
    call = quietly(lambda model, args, kwargs: [logging.getLogger(name).level for name in LIBRARIES])
    before = [logging.getLogger(name).level for name in LIBRARIES]
    # A change of level costs every logger's cache.
    monkeypatch.setattr(logging.Logger, "setLevel", Mock(side_effect=AssertionError))
    assert call(None, (), {}) == before
    first, second = mutes(), mutes()
    assert first and first == second
    for name in LIBRARIES:
        for handler in logging.getLogger(name).handlers:
            assert sum(isinstance(one, Mute) for one in handler.filters) == 1
