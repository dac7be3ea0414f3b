"""'mpsprobe checkpoint': what each format, folder, pipeline, adapter and cache says, and the command as it is typed."""

from __future__ import annotations

import importlib.util
import json
import os
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import made_checkpoints as made
import pytest
import torch
from torch import nn

from mpsprobe.errors import WorkloadError
from mpsprobe.schemas import CheckpointReport
from mpsprobe_devkit.testing import run_cli
from mpsprobe_hf.checkpoint.build import read_checkpoint
from mpsprobe_hf.checkpoint.dtypes import GGML
from mpsprobe_hf.checkpoint.gguf import read_gguf
from mpsprobe_hf.checkpoint.hub import locate
from mpsprobe_hf.checkpoint.pickled import WEIGHTS, kind_of, read_pickled
from mpsprobe_hf.checkpoint.reading import StoredTensor
from mpsprobe_hf.checkpoint.safetensors import read_safetensors


def test_safetensors(tmp_path: Path) -> None:
    kept: made.Tensors = {"a": ("BF16", [2, 3]), "b": ("F8_E4M3", [5]), "c": ("F4", [4])}
    read = read_safetensors(made.safetensors(tmp_path / "m.safetensors", kept))
    assert read.tensors == [
        StoredTensor("a", "bfloat16", 6, 12),
        StoredTensor("b", "float8_e4m3fn", 5, 5),
        StoredTensor("c", "float4_e2m1fn_x2", 4, 2),
    ]
    assert read.metadata == {"format": "pt"}


def test_safetensors_of_the_library_itself(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    kinds = [torch.float64, torch.float16, torch.int8, torch.uint16, torch.bool, torch.float8_e5m2, torch.complex64]
    save_file({str(kind): torch.zeros(2, 3).to(kind) for kind in kinds}, tmp_path / "m.safetensors")
    read = read_safetensors(tmp_path / "m.safetensors")
    assert {one.name: f"torch.{one.dtype}" for one in read.tensors} == {str(kind): str(kind) for kind in kinds}
    assert {one.name: one.bytes for one in read.tensors} == {str(kind): 6 * kind.itemsize for kind in kinds}


def test_gguf(tmp_path: Path) -> None:
    metadata = [
        made.pair("general.architecture", 8, made.text("llama")),
        made.pair("general.alignment", 4, struct.pack("<I", 64)),
        made.pair("tokenizer.ggml.tokens", 9, struct.pack("<IQ", 8, 2) + made.text("a") + made.text("b")),
        made.pair("tokenizer.ggml.scores", 9, struct.pack("<IQ", 6, 2) + struct.pack("<2f", 0, 1)),
    ]
    tensors = [("q", [256, 3], 12, 0), ("n", [5], 0, 448)]
    read = read_gguf(made.gguf(tmp_path / "m.gguf", tensors, metadata, size=512))
    assert read.tensors == [StoredTensor("q", "Q4_K", 768, 432), StoredTensor("n", "float32", 5, 20)]
    assert read.metadata == {"general.architecture": "llama"}


def test_blocks_of_ggml() -> None:
    """A second source, where the installed transformers has it: the blocks that it unpacks."""
    assert all(size * 8 < 36 * block for _, block, size in GGML.values() if block > 1)
    assert len({name for name, _, _ in GGML.values()}) == len(GGML)
    if importlib.util.find_spec("transformers.integrations.gguf") is not None:
        from transformers.integrations.gguf.dequant import GGML_BLOCK, GGML_NAME

        assert {kind: GGML[kind] for kind in GGML_BLOCK} == {
            kind: (GGML_NAME[kind], *blocks) for kind, blocks in GGML_BLOCK.items()
        }


@pytest.mark.parametrize("zipped", [True, False])
def test_pickles_of_torch(tmp_path: Path, zipped: bool) -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2).half())
    others = {"tied": model[0].weight.detach(), "sparse": torch.eye(3, dtype=torch.float64).to_sparse()}
    state = {**model.state_dict(), **others}
    torch.save({"state_dict": state, "epoch": 3}, tmp_path / "m.pt", _use_new_zipfile_serialization=zipped)
    read = read_pickled(tmp_path / "m.pt")
    found = {one.name.removeprefix("state_dict."): (one.dtype, one.values, one.bytes) for one in read.tensors}
    assert found["0.weight"] == ("float32", 12, 48) and found["1.bias"] == ("float16", 2, 4)
    assert "tied" not in found, "its storage is there already"
    assert ("float64", 3, 24) in [(one.dtype, one.values, one.bytes) for one in read.tensors]
    assert {kind_of(*one) for one in read.imports} == {"weights"}


def test_newer_dtypes_in_a_pickle(tmp_path: Path) -> None:
    kept = {"f": torch.zeros(5).to(torch.float8_e4m3fn), "u": torch.zeros(4, dtype=torch.uint16)}
    torch.save(kept, tmp_path / "m.pt")
    found = {one.name: (one.dtype, one.values, one.bytes) for one in read_pickled(tmp_path / "m.pt").tensors}
    assert found == {"f": ("float8_e4m3fn", 5, 5), "u": ("uint16", 4, 8)}


def test_what_torch_allows_is_what_is_called_weights(tmp_path: Path) -> None:
    from torch._weights_only_unpickler import _get_allowed_globals

    assert set(_get_allowed_globals()) == WEIGHTS
    for module, name in (
        ("__builtin__", "exec"),
        ("torch._utils", "_rebuild_tensor.__builtins__.get"),
        ("torch._utils", "_rebuild_others"),
        ("torch", "int8.__class__"),
        ("torch", "_utils._rebuild_tensor_v2"),
    ):
        assert kind_of(module, name) == "code"
    torch.save(nn.Linear(2, 2), tmp_path / "m.pt")
    read = read_pickled(tmp_path / "m.pt")
    assert {name for name in read.imports if kind_of(*name) == "code"} >= {("torch.nn.modules.linear", "Linear")}
    assert [one.values for one in read.tensors] == [4, 2]


class Slotted:
    __slots__ = ("__dict__", "slot")

    def __init__(self) -> None:
        self.slot, self.attribute = torch.zeros(2), torch.ones(3)


def test_tensors_in_the_attributes_and_the_slots_of_an_object(tmp_path: Path) -> None:
    torch.save(Slotted(), tmp_path / "m.pt")
    found = {one.name: one.values for one in read_pickled(tmp_path / "m.pt").tensors}
    assert found == {"attribute": 3, "slot": 2}


RELEASE = "2.13.0"
SHARDS: made.Tensors = {"a.weight": ("BF16", [4, 8]), "b.weight": ("BF16", [8]), "c.weight": ("BF16", [2, 2])}


def report(path: Path, release: str = RELEASE) -> CheckpointReport:
    return read_checkpoint(str(path), path, release)


def test_shards(tmp_path: Path) -> None:
    found = report(made.sharded(tmp_path, SHARDS, 2, {"architectures": ["LlamaForCausalLM"]}))
    assert (found.parameters, found.bytes, found.converted_bytes) == (44, 88, 88)
    assert found.sizes == {"float32": 176, "bfloat16": 88}
    assert [one.model_class for one in found.parts] == ["LlamaForCausalLM"]
    [dtype] = found.dtypes
    assert (dtype.name, dtype.use, dtype.since, dtype.convert_to) == ("bfloat16", "computed", "2.3.0", None)
    assert len(found.files) == 2 and not found.advice and not found.missing


def test_a_shard_that_is_not_there(tmp_path: Path) -> None:
    made.sharded(tmp_path, SHARDS, 3)
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
    made.safetensors(tmp_path / "model.safetensors", SHARDS)
    made.safetensors(tmp_path / "model.fp16.safetensors", SHARDS)
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
    from mpsprobe_coverage.knowledge.kernels.mps import MPS_FAMILY

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
    made.safetensors(tmp_path / "unet" / "diffusion_pytorch_model.safetensors", SHARDS)
    made.safetensors(tmp_path / "unet" / "diffusion_pytorch_model.fp16.safetensors", SHARDS)
    (tmp_path / "scheduler").mkdir()
    found = report(tmp_path)
    assert [(one.name, one.model_class, one.bytes) for one in found.parts] == [("unet", "UNet2DConditionModel", 88)]
    assert found.others == ["unet/diffusion_pytorch_model.fp16.safetensors"]
    assert sorted("vae" in note or "elsewhere" in note for note in found.notes) == [True, True]


def test_an_adapter(tmp_path: Path) -> None:
    settings = {"peft_type": "LORA", "base_model_name_or_path": "org/base", "r": 8, "target_modules": ["v", "q"]}
    (tmp_path / "adapter_config.json").write_text(json.dumps(settings), encoding="utf-8")
    made.safetensors(tmp_path / "adapter_model.safetensors", SHARDS)
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
    blob = made.safetensors(top / "blobs" / "f00", SHARDS)
    (snapshot / "model.safetensors").symlink_to(blob)
    assert locate("org/model") == locate("hf:org/model") == snapshot
    assert report(locate("org/model")).parameters == 44
    with pytest.raises(WorkloadError) as caught:
        locate("org/modell")
    assert "org/model" in str(caught.value.hint) and "hf download org/modell" in str(caught.value.hint)


LAYER = {
    **{f"self_attn.{name}_proj": [size, 8192] for name, size in (("q", 8192), ("k", 1024), ("v", 1024), ("o", 8192))},
    **{f"mlp.{name}_proj": [28672, 8192] for name in ("gate", "up", "down")},
    **{f"{name}_layernorm": [8192] for name in ("input", "post_attention")},
}
NARROWER = 64 if os.name == "nt" else 1
RUN = """
import sys
from mpsprobe.cli.main import main
code = main(sys.argv[1:])
heavy = {"torch", "transformers", "numpy", "safetensors", "huggingface_hub"}.intersection(sys.modules)
sys.exit(code or f"imported: {heavy}" if heavy else code)
"""


def llama_70b(folder: Path) -> Path:
    """Llama 3 70B in 30 shards, whose data are holes; narrower on Windows, where holes take room on the disk."""
    shapes = {f"model.layers.{i}.{name}": one for i in range(80) for name, one in LAYER.items()}
    shapes |= {"model.embed_tokens": [128256, 8192], "lm_head": [128256, 8192], "model.norm": [8192]}
    tensors = {f"{name}.weight": ("BF16", [size // NARROWER for size in shape]) for name, shape in shapes.items()}
    return made.sharded(folder, tensors, 30, {"architectures": ["LlamaForCausalLM"]})


def test_a_large_folder_without_torch(tmp_path: Path) -> None:
    folder = llama_70b(tmp_path / "llama")
    command = [sys.executable, "-c", RUN, "checkpoint", str(folder), "--format", "json", "--torch", "2.13.0"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, encoding="utf-8")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert NARROWER > 1 or (found["parameters"], found["bytes"]) == (70_553_706_496, 141_107_412_992)
    assert found["bytes"] == 2 * found["parameters"]
    assert len(found["files"]) == 30 and found["torch"] == "2.13.0"


def test_every_format(tmp_path: Path) -> None:
    path = made.safetensors(tmp_path / "m.safetensors", {"d": ("F64", [10]), "f": ("F8_E4M3", [6])})
    for ending in ("json", "txt", "md", "html", "csv"):
        output = tmp_path / f"report.{ending}"
        done = run_cli("checkpoint", str(path), "--torch", "2.13.0", "-o", str(output), process=False)
        assert done.code == 0, done.stderr
        written = output.read_text(encoding="utf-8")
        assert "float64" in written and "float8_e4m3fn" in written
    made.safetensors(path, {"d": ("F64", [10])})
    shown = run_cli("checkpoint", str(path), "--torch", "2.13.0", process=False).stdout
    assert shown.startswith("10 parameters in 80 B: MPS does not compute with float64 on torch 2.13.0\n")
    assert "Convert it before it is moved: tensor.to(torch.float32)." in shown


def test_mistakes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))
    for arguments, says in (
        (["no/such"], "no such repository in the cache"),
        (["./no/such"], "there is no file or folder"),
        (["."], "holds no weights"),
        ([".", "--torch", "9.9"], "unknown torch release"),
        ([".", "--format", "junit"], "reads coverage"),
    ):
        done = run_cli("checkpoint", *arguments, process=False)
        assert done.code == 2 and says in done.stderr, arguments
