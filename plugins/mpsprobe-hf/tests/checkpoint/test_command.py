"""``mpsprobe checkpoint`` as it is typed: every format, without torch, and a large folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import made_checkpoints as made
import pytest

from mpsprobe_devkit.testing import run_cli

LAYER: made.Tensors = {
    "self_attn.q_proj": ("BF16", [8192, 8192]),
    "self_attn.k_proj": ("BF16", [1024, 8192]),
    "self_attn.v_proj": ("BF16", [1024, 8192]),
    "self_attn.o_proj": ("BF16", [8192, 8192]),
    "mlp.gate_proj": ("BF16", [28672, 8192]),
    "mlp.up_proj": ("BF16", [28672, 8192]),
    "mlp.down_proj": ("BF16", [8192, 28672]),
    "input_layernorm": ("BF16", [8192]),
    "post_attention_layernorm": ("BF16", [8192]),
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
    tensors = {f"model.layers.{i}.{name}.weight": one for i in range(80) for name, one in LAYER.items()}
    tensors |= {f"{name}.weight": ("BF16", [128256, 8192]) for name in ("model.embed_tokens", "lm_head")}
    tensors["model.norm.weight"] = ("BF16", [8192])
    tensors = {name: (dtype, [size // NARROWER for size in shape]) for name, (dtype, shape) in tensors.items()}
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
