"""Hand-written reports that the tests render: every verdict, every section, every way to end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from mpsprobe.schemas import CoverageReport, MatrixReport, ProfileReport
from mpsprobe.schemas.report import Report
from mpsprobe_devkit.testing import (
    sample_comparison_report,
    sample_coverage_comparison,
    sample_profile_report,
    sample_several_report,
)

ENVIRONMENT = {
    "mpsprobe": "0.1.0",
    "python": "3.11.7",
    "platform": "linux-x86_64",
    "torch": "2.13.0",
    "torch_build": "cpu",
    "transformers": "5.23.0",
}
RELEASES = ["1.12.1", "1.13.1", "2.0.0", "2.0.1", "2.1.0", "2.3.1", "2.6.0", "2.9.0", "2.13.0", "2.14.0", "2.15.0"]
BERT = {"name": "bert-base", "architecture": "BertModel", "phase": "inference", "dtype": "float32"}
SIZES = {"parameters": 109482240, "batch_size": 8, "seq_len": 128}
TABLE = {"wheel": "torch-2.15.0-cp311-none-macosx_14_0_arm64.whl", "sha256": "0" * 64}
MODELING = "transformers/models/bert/modeling_bert.py"


def finding(operator: str, verdict: str = "native", calls: int = 1, **more: Any) -> dict[str, Any]:
    """One entry of ``operators``, as JSON has it."""
    made = {"operator": operator, "verdict": verdict, "calls": calls, "phases": {"forward": calls}}
    return {**made, "dtypes": ["float32"], "native_since": "2.0.0", **more}


def summary(operators: Sequence[Mapping[str, Any]], native_since: str | None = None) -> dict[str, Any]:
    """The counts that belong to ``operators``."""
    calls: Counter[str] = Counter()
    for one in operators:
        calls[one["verdict"]] += one["calls"]
    verdicts = Counter(one["verdict"] for one in operators)
    return {
        "calls": calls.total(),
        "operators": verdicts.total(),
        "calls_by_verdict": dict(calls),
        "operators_by_verdict": dict(verdicts),
        "native_since": native_since,
    }


def coverage(torch: str, operators: list[dict[str, Any]], **more: Any) -> CoverageReport:
    """A coverage report of ``operators`` for one release; ``more`` replaces whole keys."""
    document = {
        "method": "predicted",
        "workload": {**BERT, **SIZES},
        "target": {"torch": torch, "macos_minimum": "14.0", "table": TABLE},
        "environment": ENVIRONMENT,
        "summary": summary(operators),
        "operators": operators,
    }
    return CoverageReport.model_validate({**document, **more})


def layers(template: str, count: int = 12) -> list[str]:
    """The names of one module in each layer."""
    return [template.format(index) for index in range(count)]


LINEAR = finding(
    "aten::linear",
    calls=73,
    modules=[
        *(f"encoder.layer.{index}.{part}" for index in range(12) for part in ("attention.self.query", "output.dense")),
        "pooler.dense",
    ],
    call_sites=[f"{MODELING}:164", f"{MODELING}:165", f"{MODELING}:430"],
    shapes=["8x128x768, 768x768, 768"],
)
NATIVE = [
    LINEAR,
    finding("aten::native_layer_norm", calls=25, modules=layers("encoder.layer.{}.output.LayerNorm")),
    finding("aten::gelu", calls=12, modules=layers("encoder.layer.{}.intermediate"), native_since="1.12.0"),
    finding("aten::embedding", calls=3, dtypes=["float32", "int64"], modules=["embeddings.word_embeddings"]),
    finding("aten::_scaled_dot_product_attention_math_for_mps", calls=12, native_since="2.5.0", modules=[""]),
]
FINDINGS = [
    finding(
        "aten::linalg_qr.out",
        "missing",
        4,
        phases={"forward": 2, "backward": 2},
        modules=layers("blocks.{}.orthogonal", 2),
        call_sites=["/home/user/project/orthogonal.py:31", "torch/nn/utils/parametrizations.py:120"],
        shapes=["128x64", "64x64"],
        native_since="2.9.0",
        input_bytes=131072,
        output_bytes=98304,
    ),
    finding("aten::_weird_new_operator.Tensor_out", "missing", 1, native_since=None, reason="No kernel is registered."),
    finding(
        "aten::mul.Tensor",
        "unsupported",
        2,
        dtypes=["float64"],
        modules=["rotary"],
        call_sites=["C:\\project\\rotary.py:12"],
        reason="MPS has no 64-bit floating point.",
    ),
    finding(
        "aten::linalg_svd",
        "fallback",
        1,
        phases={"optimizer": 1},
        native_since="2.15.0",
        input_bytes=25_165_824,
        output_bytes=50_331_648,
        advice="It works, slowly: about 75.5 MB are copied. Native from torch 2.15.0 on: upgrade.",
    ),
    finding("acme::rope", "unknown", 24, native_since=None, reason="No table covers the library acme."),
    finding("aten::mul.Tensor", "native", 40),
]


def failed() -> CoverageReport:
    """A run that stopped in the backward pass."""
    failure = {
        "phase": "backward",
        "error": "RuntimeError",
        "message": "shape '[8, 128]' is invalid for input of size 3",
        "module": "encoder.layer.3.attention",
        "call_site": f"{MODELING}:201",
    }
    return coverage("2.6.0", NATIVE[:2], failure=failure)


def explained() -> CoverageReport:
    """``--explain``, with a tensor that MPS cannot hold and each kind of evidence."""
    wide = {"dtypes": ["float64"], "native_since": None, "reason": "a float64 tensor: MPS has no 64-bit floating point"}
    operators = [
        finding("aten::mul.Tensor", "unsupported", source="dtype", evidence="float64", judges=["dtype"], **wide),
        finding(
            "aten::linalg_lu_factor_ex.out",
            "unsupported",
            dtypes=["complex64"],
            reason="LU factorisation of complex matrices",
            source="message",
            evidence="linalg.lu_factor(): MPS doesn't support complex types.",
            judges=["dtype", "guard"],
        ),
        finding("aten::copy_", source="branch", evidence="the call goes to MPS by the type of its device"),
        finding("aten::linear", source="registration", evidence="a kernel is registered under MPS"),
    ]
    needs = {"macos": "14.0", "what": "bfloat16", "operators": ["aten::linear", "aten::gelu"]}
    first = {"dtype": "float64", "operator": "aten::copy_", "phase": "forward", "module": "head"}
    return coverage(
        "2.13.0",
        operators,
        explained=True,
        macos_conditions=[needs],
        first_refused_tensor={**first, "call_site": "/home/user/project/loss.py:7"},
    )


ADVISORIES = [
    {
        "id": "attention-causal-half",
        "title": "Causal attention in half precision lets tokens see up to three later ones",
        "condition": "is_causal=True in float16 or bfloat16 with more than one query",
        "symptom": "Up to three later tokens leak into the result.",
        "workaround": "Pass a lower-triangular attn_mask instead of is_causal=True, or upgrade.",
        "torch": {"seen": ["2.10.0", "2.12.1"], "fixed": "2.13.0"},
        "macos": {},
        "sources": ["pytorch/pytorch#195910", "https://example.org/report"],
        "operators": ["aten::_scaled_dot_product_attention_math_for_mps"],
        "calls": 12,
        "phases": {"forward": 12},
        "modules": layers("encoder.layer.{}.attention.self"),
        "call_sites": [f"{MODELING}:282"],
    },
    {
        "id": "bmm-long-reduction",
        "title": "Batched matrix products add memory beyond their operands",
        "condition": "the dimension that is summed over has 32767 elements or more",
        "symptom": "Results that are off by up to a third of their scale.",
        "workaround": "Split the sum.",
        "hardware": "M1 and M2",
        "torch": {"since": "2.7.0", "open": True},
        "macos": {"since": "15.0", "fixed": "26.4"},
        "sources": ["pytorch/pytorch#195163"],
        "operators": ["aten::bmm"],
        "calls": 1,
        "phases": {"backward": 1},
    },
]


def advised() -> CoverageReport:
    """Everything native, and two known wrong results."""
    return coverage(
        "2.12.1", NATIVE, advisories=ADVISORIES, summary={**summary(NATIVE, "2.5.0"), "advisories": len(ADVISORIES)}
    )


def advised_matrix() -> MatrixReport:
    """Three releases, of which the first two have a known wrong result and the third none."""
    cells = [
        {"target": {"torch": torch}, "summary": summary(NATIVE), "advisories": names}
        for torch, names in (
            ("2.11.0", ["attention-causal-half", "bmm-long-reduction"]),
            ("2.12.1", ["attention-causal-half"]),
            ("2.13.0", []),
        )
    ]
    document = {"method": "predicted", "workload": {**BERT, **SIZES}, "environment": ENVIRONMENT, "releases": cells}
    return MatrixReport.model_validate(
        {**document, "native_since": "2.11.0", "operators": NATIVE, "advisories": ADVISORIES}
    )


def mixed() -> CoverageReport:
    """Training with every verdict, something not judged and an assumption."""
    workload = {**BERT, **SIZES, "phase": "training", "autocast": "bfloat16", "grad_accum": 4, "optimizer": "AdamW"}
    operators = FINDINGS + NATIVE
    counts = {"missing": 2, "unsupported": 1, "fallback": 1, "unknown": 1, "native": 5}
    return coverage(
        "2.6.0",
        operators,
        workload={**workload, "notes": ["Labels are random."]},
        summary={**summary(operators), "operators": 10, "operators_by_verdict": counts},
        not_judged=[{"operator": "triton::kernel", "reason": "a kernel of its own, not an operator", "calls": 3}],
        data_dependence=[
            {
                "operator": "aten::_local_scalar_dense",
                "assumed": "a condition on values was taken to be false",
                "call_sites": ["transformers/masking_utils.py:77"],
            }
        ],
    )


def program() -> CoverageReport:
    """A script of two models, one of which was never moved, with what is for CUDA in it, ended by an exception."""
    stayed = {"module": "Teacher", "calls": 60, "parameters_bytes": 437_929_000, "call_site": "src/distil.py:88"}
    scaler = {"what": 'GradScaler("cuda")', "instead": 'torch.amp.GradScaler("mps")', "calls": 1}
    loader = {"what": "pin_memory=True", "instead": "pin_memory=False", "calls": 2}
    return coverage(
        "2.6.0",
        FINDINGS[:1] + NATIVE[:2],
        workload={
            "name": "src/distil.py",
            "architecture": "Student, Teacher",
            "phase": "program",
            "dtype": "float32",
            "parameters": 176_000_000,
        },
        failure={"phase": "backward", "error": "RuntimeError", "message": "no", "call_site": "src/distil.py:93"},
        program={
            "arguments": ["--epochs", "1", "--name", "first try"],
            "exit_code": 1,
            "device": "virtual",
            "values": "real",
            "seconds": 1234.5,
            "processes": 4,
            "stayed_on_cpu": [stayed],
            "cuda": [
                {**scaler, "call_sites": ["src/distil.py:41"]},
                {**loader, "call_sites": ["src/distil.py:52", "src/distil.py:53"]},
            ],
        },
    )


def matrix() -> MatrixReport:
    """Eleven releases: operators that become native, one that stays a fallback, one run that stops."""
    total = len(NATIVE) + 3
    cells = []
    for torch in RELEASES:
        version = tuple(map(int, torch.split(".")))
        found = {}
        if version < (2, 9):
            found["aten::linalg_qr.out"] = "missing"
        if version < (2, 15):
            found["aten::linalg_svd"] = "fallback" if version >= (2, 3) else "missing"
        if version < (2, 1):
            found["aten::as_strided"] = "unsupported"
        counts = {**Counter(found.values()), "native": total - len(found)}
        cell = {"target": {"torch": torch}, "findings": found}
        calls = {"calls": 200, "operators": total, "calls_by_verdict": {}, "operators_by_verdict": counts}
        failure = {"phase": "forward", "error": "RuntimeError", "message": "too old"}
        cells.append({**cell, "summary": calls, "failure": failure if torch == "1.12.1" else None})
    document = {"method": "predicted", "workload": {**BERT, **SIZES}, "environment": ENVIRONMENT, "releases": cells}
    return MatrixReport.model_validate({**document, "native_since": "2.15.0", "operators": NATIVE})


def profiled() -> ProfileReport:
    """Training on two devices with two batch sizes: one that ran out of memory, one interrupted sweep."""

    def cell(device: str, batch: int, median_ms: float, **more: Any) -> dict[str, Any]:
        durations = [round(median_ms * 1e6 * share) for share in (0.99, 1.0, 1.0, 1.01, 1.5)]
        step = {
            "count": 5,
            "median_ns": durations[2],
            "low_ns": durations[0],
            "high_ns": durations[3],
            "spread": 0.0148,
        }
        step |= {"minimum_ns": durations[0], "maximum_ns": durations[4], "mean_ns": sum(durations) / 5, "outliers": 1}
        rate = {"per_second": batch * 1e3 / median_ms, "low": batch * 990 / median_ms, "high": batch * 1010 / median_ms}
        return {
            **what,
            "device": device,
            "batch_size": batch,
            "seq_len": 128,
            "dtype": "float32",
            "first_call_ns": [round(median_ms * 9e6)],
            "warmup": {"durations_ns": durations[:3], "stable": device == "mps", "rule": "3 steps, as asked"},
            "steps": [{"duration_ns": spent, "outlier": spent == durations[4]} for spent in durations],
            "step": step,
            "throughput": [{"unit": "samples", **rate}, {"unit": "tokens", **{k: 128 * v for k, v in rate.items()}}],
            "phases": {
                "forward": {**step, "median_ns": 0.3 * durations[2]},
                "backward": {**step, "median_ns": 0.6 * durations[2]},
                "optimizer": {**step, "median_ns": 0.1 * durations[2]},
            },
            **more,
        }

    what = {"workload": BERT["name"], "phase": "training"}
    full = {"phase": "build", "error": "OutOfMemoryError", "message": "no memory left on the device"}
    document = {
        "workloads": [{**BERT, "parameters": SIZES["parameters"], "phase": "training", "optimizer": "AdamW (fused)"}],
        "environment": ENVIRONMENT,
        "devices": [
            {"type": "mps", "name": "Apple M3 Max", "memory_bytes": 48 * 10**9, "capabilities": {"macos": "15.1"}},
            {"type": "cpu", "name": "arm64", "capabilities": {"threads": "12"}},
        ],
        "plan": {"devices": ["mps", "cpu"], "batch_sizes": [8, 512], "seq_lens": [128], "steps": 5, "baseline": "cpu"},
        "cells": [
            cell("mps", 8, 48.4, unavailable=[{"probe": "energy", "reason": "zeus is not installed"}]),
            {**what, "device": "mps", "batch_size": 512, "seq_len": 128, "dtype": "float32", "failure": full},
            cell("cpu", 8, 312.5, notes=["the clock went back during 1 of the steps: they are left out"]),
        ],
        "complete": False,
    }
    return ProfileReport.model_validate(document)


def examples() -> dict[str, Report]:
    """The reports that golden files show, by name."""
    return {
        "native": coverage("2.15.0", NATIVE, summary=summary(NATIVE, "2.5.0")),
        "mixed": mixed(),
        "failed": failed(),
        "explained": explained(),
        "profiled": profiled(),
        "program": program(),
        "matrix": matrix(),
        "advised": advised(),
        "advised-matrix": advised_matrix(),
        "empty": coverage("2.15.0", []),
        "measured": sample_profile_report(),
        "compared": sample_comparison_report(),
        "compared-coverage": sample_coverage_comparison(),
        "several": sample_several_report(),
    }
