"""What each format says, read from files that are made byte by byte and from those that torch writes."""

from __future__ import annotations

import importlib.util
import struct
from pathlib import Path

import made_checkpoints as made
import pytest
import torch
from torch import nn

from mpsprobe_hf.checkpoint.gguf import TYPES, read_gguf
from mpsprobe_hf.checkpoint.pickled import WEIGHTS, kind_of, read_pickled
from mpsprobe_hf.checkpoint.reading import StoredTensor
from mpsprobe_hf.checkpoint.safetensors import read_safetensors


def test_safetensors(tmp_path: Path) -> None:
    path = made.safetensors(
        tmp_path / "m.safetensors", {"a": ("BF16", [2, 3]), "b": ("F8_E4M3", [5]), "c": ("F4", [4])}
    )
    read = read_safetensors(path)
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
    assert all(size * 8 < 36 * block for _, block, size in TYPES.values() if block > 1)
    assert len({name for name, _, _ in TYPES.values()}) == len(TYPES)
    if importlib.util.find_spec("transformers.integrations.gguf") is not None:
        from transformers.integrations.gguf.dequant import GGML_BLOCK, GGML_NAME

        assert {kind: TYPES[kind] for kind in GGML_BLOCK} == {
            kind: (GGML_NAME[kind], *blocks) for kind, blocks in GGML_BLOCK.items()
        }


@pytest.mark.parametrize("zipped", [True, False])
def test_pickles_of_torch(tmp_path: Path, zipped: bool) -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2).half())
    state = {
        **model.state_dict(),
        "tied": model[0].weight.detach(),
        "sparse": torch.eye(3, dtype=torch.float64).to_sparse(),
    }
    torch.save({"state_dict": state, "epoch": 3}, tmp_path / "m.pt", _use_new_zipfile_serialization=zipped)
    read = read_pickled(tmp_path / "m.pt")
    found = {one.name.removeprefix("state_dict."): (one.dtype, one.values, one.bytes) for one in read.tensors}
    assert found["0.weight"] == ("float32", 12, 48) and found["1.bias"] == ("float16", 2, 4)
    assert "tied" not in found, "its storage is there already"
    assert ("float64", 3, 24) in [(one.dtype, one.values, one.bytes) for one in read.tensors]
    assert {kind_of(*one) for one in read.imports} == {"weights"}


def test_newer_dtypes_in_a_pickle(tmp_path: Path) -> None:
    torch.save(
        {"f": torch.zeros(5).to(torch.float8_e4m3fn), "u": torch.zeros(4, dtype=torch.uint16)}, tmp_path / "m.pt"
    )
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
