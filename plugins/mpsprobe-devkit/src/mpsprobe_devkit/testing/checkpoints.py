"""A sample checkpoint report, with every field set."""

from __future__ import annotations

from mpsprobe.schemas import (
    Adapter,
    CheckpointFile,
    CheckpointPart,
    CheckpointReport,
    Environment,
    PickleImport,
    Quantization,
    StoredDtype,
)


def sample_checkpoint_report() -> CheckpointReport:
    """A pickled adapter in 4 bits, with one tensor that MPS refuses; no checkpoint has all of this."""
    quantization = Quantization(
        method="mxfp4",
        bits=4,
        mps="dequantized",
        explanation="It is unpacked to bfloat16 when it is loaded.",
        read_in="transformers 5.23.0",
        sources=["https://github.com/pytorch/pytorch/issues/1"],
    )
    return CheckpointReport(
        name="some/adapter",
        path="models/adapter",
        torch="2.13.0",
        environment=Environment(mpsprobe="0.1.0", python="3.12.4", platform="linux-x86_64"),
        parameters=1010,
        bytes=580,
        converted_bytes=2040,
        sizes={"float32": 4040, "bfloat16": 2020},
        machine_bytes=16 * 2**30,
        dtypes=[
            StoredDtype(
                name="uint8",
                role="packed",
                tensors=2,
                parameters=1000,
                bytes=500,
                use="computed",
                since="1.12.0",
                convert_to="bfloat16",
                converted_bytes=2000,
            ),
            StoredDtype(
                name="float64",
                tensors=1,
                parameters=10,
                bytes=80,
                use="refused",
                reason="MPS has no 64-bit floating point",
                convert_to="float32",
                converted_bytes=40,
            ),
        ],
        parts=[
            CheckpointPart(
                model_class="LlamaForCausalLM",
                name="",
                format="pickle",
                parameters=1010,
                bytes=580,
                dtypes={"uint8": 500, "float64": 80},
                quantization=quantization,
            )
        ],
        files=[CheckpointFile(name="adapter_model.bin", format="pickle", tensors=3, bytes=1200)],
        missing=["adapter_model-00002-of-00002.bin"],
        others=["consolidated.pth"],
        adapter=Adapter(method="LORA", base_model="some/model", rank=8, targets=["q_proj", "v_proj"]),
        imports=[
            PickleImport(name="posix.system", times=1, kind="code"),
            PickleImport(name="torch._utils._rebuild_tensor_v2", times=3, kind="weights"),
        ],
        metadata={"general.architecture": "llama"},
        advice=["Do not load it."],
        notes=["the component 'vae' has no folder: it may not have been downloaded"],
    )
