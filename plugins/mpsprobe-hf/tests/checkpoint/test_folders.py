"""Folders, pipelines, adapters, quantized checkpoints and the cache of the Hub, as reports."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import made_checkpoints as made
import pytest
import torch

from mpsprobe.errors import WorkloadError
from mpsprobe.schemas import CheckpointReport
from mpsprobe_hf.checkpoint.build import read_checkpoint
from mpsprobe_hf.checkpoint.hub import locate

RELEASE = "2.13.0"
WEIGHTS: made.Tensors = {"a.weight": ("BF16", [4, 8]), "b.weight": ("BF16", [8]), "c.weight": ("BF16", [2, 2])}


def report(path: Path, release: str = RELEASE) -> CheckpointReport:
    return read_checkpoint(str(path), path, release)


def test_shards(tmp_path: Path) -> None:
    found = report(made.sharded(tmp_path, WEIGHTS, 2, {"architectures": ["LlamaForCausalLM"]}))
    assert (found.parameters, found.bytes, found.converted_bytes) == (44, 88, 88)
    assert found.sizes == {"float32": 176, "bfloat16": 88}
    assert [one.model_class for one in found.parts] == ["LlamaForCausalLM"]
    assert [(one.name, one.use, one.since, one.convert_to) for one in found.dtypes] == [
        ("bfloat16", "computed", "2.3.0", None)
    ]
    assert len(found.files) == 2 and not found.advice and not found.missing


def test_a_shard_that_is_not_there(tmp_path: Path) -> None:
    made.sharded(tmp_path, WEIGHTS, 3)
    (tmp_path / "model-00002-of-00003.safetensors").unlink()
    found = report(tmp_path)
    assert found.missing == ["model-00002-of-00003.safetensors"] and "not there" in found.advice[0]
    assert found.notes == ["by its index the tensors of all files have 88 bytes"]
    (folder := tmp_path / "without an index").mkdir()
    for number in (1, 3):
        made.gguf(folder / f"m-0000{number}-of-00003.gguf", [("n", [8], 0, 0)], size=32)
    found = report(folder)
    assert found.missing == ["m-00002-of-00003.gguf"] and found.parameters == 16
    assert "one of 3 files" in report(folder / "m-00001-of-00003.gguf").notes[0]


def test_what_is_loaded_is_counted_and_the_rest_named(tmp_path: Path) -> None:
    made.safetensors(tmp_path / "model.safetensors", WEIGHTS)
    made.safetensors(tmp_path / "model.fp16.safetensors", WEIGHTS)
    torch.save({}, tmp_path / "pytorch_model.bin")
    torch.save({}, tmp_path / "optimizer.pt")
    found = report(tmp_path)
    assert [one.name for one in found.files] == ["model.safetensors"]
    assert found.others == ["model.fp16.safetensors", "pytorch_model.bin"]


def test_dtypes_by_release(tmp_path: Path) -> None:
    path = made.safetensors(tmp_path / "m.safetensors", {"d": ("F64", [10]), "f": ("F8_E4M3", [6])})
    rows = {one.name: one for one in report(path).dtypes}
    assert rows["float64"].use == "refused" and rows["float64"].convert_to == "float32"
    assert (rows["float64"].bytes, rows["float64"].converted_bytes) == (80, 40)
    assert rows["float8_e4m3fn"].use == "held" and rows["float8_e4m3fn"].since == "2.15.0"
    assert (rows["float8_e4m3fn"].convert_to, rows["float8_e4m3fn"].converted_bytes) == ("bfloat16", 12)
    newer = {one.name: one for one in report(path, "2.15.0").dtypes}
    assert newer["float8_e4m3fn"].use == "computed" and newer["float8_e4m3fn"].convert_to is None
    older = {one.name: one for one in report(path, "2.2.2").dtypes}
    assert older["float8_e4m3fn"].convert_to == "float16", "which has no bfloat16 yet"


GPTQ: made.Tensors = {
    "a.qweight": ("I32", [16, 8]),
    "a.qzeros": ("I32", [1, 1]),
    "a.scales": ("F16", [1, 8]),
    "a.g_idx": ("I32", [128]),
    "norm.weight": ("F16", [8]),
}
BITSANDBYTES: made.Tensors = {
    "a.weight": ("U8", [512, 1]),
    "a.weight.absmax": ("F32", [16]),
    "a.weight.quant_map": ("F32", [16]),
    "a.weight.quant_state.bitsandbytes__nf4": ("U8", [80]),
    "norm.weight": ("BF16", [24]),
}
MXFP4: made.Tensors = {"e.down_blocks": ("U8", [4, 16]), "e.down_scales": ("U8", [4]), "n.weight": ("BF16", [2])}
FP8: made.Tensors = {"a.weight": ("F8_E4M3", [32]), "a.weight_scale_inv": ("F32", [1]), "n.weight": ("BF16", [2])}


@pytest.mark.parametrize(
    ("tensors", "settings", "method", "mps", "parameters", "converted"),
    [
        (GPTQ, {"quant_method": "gptq", "bits": 4}, "gptq", "operators", 1032, None),
        (BITSANDBYTES, {"load_in_4bit": True}, "bitsandbytes_4bit", "metal", 1048, None),
        (MXFP4, {"quant_method": "mxfp4"}, "mxfp4", "dequantized", 130, 260),
        (FP8, {"quant_method": "fp8"}, "fp8", "dequantized", 34, 68),
        (FP8, {"quant_method": "fbgemm_fp8"}, "fbgemm_fp8", "none", 35, 72),
        (FP8, {"quant_method": "of tomorrow"}, "of tomorrow", "unknown", 35, 72),
    ],
)
def test_quantized(
    tmp_path: Path,
    tensors: made.Tensors,
    settings: dict[str, Any],
    method: str,
    mps: str,
    parameters: int,
    converted: int | None,
) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"quantization_config": settings}), encoding="utf-8")
    made.safetensors(tmp_path / "model.safetensors", tensors)
    found = report(tmp_path)
    quantization = found.parts[0].quantization
    assert quantization is not None and (quantization.method, quantization.mps) == (method, mps)
    assert found.parameters == parameters
    assert found.converted_bytes == (found.bytes if converted is None else converted)
    assert any(quantization.explanation in line for line in found.advice)


def test_every_method_of_transformers_is_in_the_table() -> None:
    import transformers
    from packaging.version import Version
    from transformers.quantizers.auto import AUTO_QUANTIZER_MAPPING

    from mpsprobe.schemas import Quantization
    from mpsprobe_hf.checkpoint.quantization import backends

    for name, one in backends().items():
        assert one.explanation and one.read_in, name
        Quantization(method=name, mps=one.mps, explanation=one.explanation)  # type: ignore[arg-type]
    not_established = {"quark", "fouroversix", "sinq", "gemma"}
    added = set(AUTO_QUANTIZER_MAPPING) - not_established - set(backends())
    assert not added or Version(transformers.__version__) > Version("5.23.0"), "those of later releases are unknown"


def test_what_the_table_says_about_releases_is_in_the_kernel_tables() -> None:
    from mpsprobe_coverage.kernels.mps import MPS_FAMILY

    since = {"_scaled_mm_v2": "2.15.0", "_weight_int4pack_mm": "2.4.0", "_weight_int8pack_mm": "2.4.0"}
    assert {operator: MPS_FAMILY.native_since(f"aten::{operator}") for operator in since} == since


def test_gguf_has_its_types_for_dtypes(tmp_path: Path) -> None:
    made.gguf(tmp_path / "m.gguf", [("q", [256, 2], 14, 0), ("n", [8], 0, 448)], size=480)
    found = report(tmp_path / "m.gguf")
    rows = {one.name: one for one in found.dtypes}
    assert rows["Q6_K"].use == "packed" and (rows["Q6_K"].bytes, rows["Q6_K"].converted_bytes) == (420, 1024)
    assert rows["float32"].use == "computed"
    assert found.parts[0].quantization is not None and found.parts[0].quantization.method == "gguf"


def test_a_pipeline(tmp_path: Path) -> None:
    index = {
        "_class_name": "StableDiffusionPipeline",
        "unet": ["diffusers", "UNet2DConditionModel"],
        "vae": ["diffusers", "AutoencoderKL"],
        "scheduler": ["diffusers", "DDIMScheduler"],
        "safety_checker": [None, None],
        "../elsewhere": ["diffusers", "X"],
    }
    (tmp_path / "model_index.json").write_text(json.dumps(index), encoding="utf-8")
    made.safetensors(tmp_path / "unet" / "diffusion_pytorch_model.safetensors", WEIGHTS)
    made.safetensors(tmp_path / "unet" / "diffusion_pytorch_model.fp16.safetensors", WEIGHTS)
    (tmp_path / "scheduler").mkdir()
    found = report(tmp_path)
    assert [(one.name, one.model_class, one.bytes) for one in found.parts] == [("unet", "UNet2DConditionModel", 88)]
    assert found.others == ["unet/diffusion_pytorch_model.fp16.safetensors"]
    assert sorted("vae" in note or "elsewhere" in note for note in found.notes) == [True, True]


def test_an_adapter(tmp_path: Path) -> None:
    settings = {"peft_type": "LORA", "base_model_name_or_path": "org/base", "r": 8, "target_modules": ["v", "q"]}
    (tmp_path / "adapter_config.json").write_text(json.dumps(settings), encoding="utf-8")
    made.safetensors(tmp_path / "adapter_model.safetensors", WEIGHTS)
    adapter = report(tmp_path).adapter
    assert adapter is not None
    assert (adapter.method, adapter.base_model, adapter.rank, adapter.targets) == ("LORA", "org/base", 8, ["q", "v"])
    assert any("mpsprobe checkpoint org/base" in line for line in report(tmp_path).advice)


def test_a_repository_in_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HF_HUB_CACHE", raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    top = tmp_path / "hub" / "models--org--model"
    snapshot = top / "snapshots" / "0123abcd"
    for folder in (snapshot, top / "refs"):
        folder.mkdir(parents=True)
    (top / "refs" / "main").write_text("0123abcd", encoding="ascii")
    blob = made.safetensors(top / "blobs" / "f00", WEIGHTS)
    (snapshot / "model.safetensors").symlink_to(blob)
    assert locate("org/model") == locate("hf:org/model") == snapshot
    assert report(locate("org/model")).parameters == 44
    with pytest.raises(WorkloadError) as caught:
        locate("org/modell")
    assert "org/model" in str(caught.value.hint) and "hf download org/modell" in str(caught.value.hint)
