"""What ``mpsprobe checkpoint`` is measured with: the headers of Llama 3 70B in 30 shards, and a large one."""

from __future__ import annotations

import json
import struct
from pathlib import Path

HIDDEN, INNER, VOCABULARY, LAYERS, SHARDS = 8192, 28672, 128256, 80, 30
LAYER = {
    "self_attn.q_proj": [HIDDEN, HIDDEN],
    "self_attn.k_proj": [1024, HIDDEN],
    "self_attn.v_proj": [1024, HIDDEN],
    "self_attn.o_proj": [HIDDEN, HIDDEN],
    "mlp.gate_proj": [INNER, HIDDEN],
    "mlp.up_proj": [INNER, HIDDEN],
    "mlp.down_proj": [HIDDEN, INNER],
    "input_layernorm": [HIDDEN],
    "post_attention_layernorm": [HIDDEN],
}


def make_llama(folder: Path) -> Path:
    """The shards: their headers are real, their 141 GB of data are holes that take no room on the disk."""
    tensors = {f"model.layers.{layer}.{name}.weight": shape for layer in range(LAYERS) for name, shape in LAYER.items()}
    tensors |= {f"{name}.weight": [VOCABULARY, HIDDEN] for name in ("model.embed_tokens", "lm_head")}
    folder.mkdir()
    mapped = {}
    names = list(tensors)
    for number in range(SHARDS):
        file, header, end = f"model-{number + 1:05}-of-{SHARDS:05}.safetensors", {}, 0
        for name in names[number::SHARDS]:
            size = 2
            for dimension in tensors[name]:
                size *= dimension
            header[name] = {"dtype": "BF16", "shape": tensors[name], "data_offsets": [end, end + size]}
            end += size
            mapped[name] = file
        text = json.dumps(header).encode()
        with (folder / file).open("wb") as stream:
            stream.write(struct.pack("<Q", len(text)) + text)
            stream.truncate(8 + len(text) + end)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": mapped}), encoding="utf-8")
    return folder


def make_many(path: Path) -> Path:
    """A header nearly as large as any that is read: 480,000 tensors of a byte."""
    entry = '"%07d":{"dtype":"U8","shape":[1],"data_offsets":[%d,%d]}'
    text = b"{" + ",".join(entry % (one, one, one + 1) for one in range(480_000)).encode() + b"}"
    path.write_bytes(struct.pack("<Q", len(text)) + text + bytes(480_000))
    return path
