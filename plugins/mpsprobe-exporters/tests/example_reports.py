"""The reports that tests render: samples, some of the gallery, coverage of findings, and samples with hostile texts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from mpsprobe.schemas import ComparisonReport, CoverageReport, MatrixReport, ProfileCell, ProfileReport, read_report
from mpsprobe.schemas.report import Report
from mpsprobe_devkit.testing import (
    sample_comparison_report,
    sample_coverage_comparison,
    sample_coverage_report,
    sample_matrix_report,
    sample_profile_report,
    sample_reports,
)
from mpsprobe_devkit.testing.mutations import HOSTILE_TEXTS, with_text
from mpsprobe_devkit.testing.strategies import hostile_texts

GALLERY = Path(__file__).resolve().parents[3] / "docs" / "gallery" / "data"
SAMPLE = sample_coverage_report().model_dump(exclude_unset=True)
BERT = {"name": "bert-base", "architecture": "BertModel", "phase": "inference", "dtype": "float32"}
RELEASES = ["1.12.1", "1.13.1", "2.0.0", "2.0.1", "2.1.0", "2.3.1", "2.6.0", "2.9.0", "2.13.0", "2.14.0", "2.15.0"]
SIZES = {"parameters": 109482240, "batch_size": 8, "seq_len": 128}
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
    counts = {"calls": calls.total(), "operators": verdicts.total(), "calls_by_verdict": dict(calls)}
    return {**counts, "operators_by_verdict": dict(verdicts), "native_since": native_since}


def coverage(torch: str, operators: list[dict[str, Any]], **more: Any) -> CoverageReport:
    """A coverage report of ``operators`` for one release; ``more`` replaces whole keys."""
    judged = {"target": {**SAMPLE["target"], "torch": torch}, "summary": summary(operators), "operators": operators}
    known = {"method": "predicted", "workload": {**BERT, **SIZES}, "environment": SAMPLE["environment"]}
    return CoverageReport.model_validate({**known, **judged, **more})


def of_releases(cells: list[dict[str, Any]], **more: Any) -> MatrixReport:
    """A report on many releases, with operators that are all native on the last one."""
    known = {"method": "predicted", "workload": {**BERT, **SIZES}, "environment": SAMPLE["environment"]}
    return MatrixReport.model_validate({**known, "native_since": None, "releases": cells, "operators": NATIVE, **more})


def layers(template: str, count: int = 12) -> list[str]:
    """The names of one module in each layer."""
    return [template.format(index) for index in range(count)]


NATIVE = [
    finding(
        "aten::linear",
        calls=73,
        modules=[*layers("encoder.layer.{}.attention.self.query"), *layers("encoder.layer.{}.output.dense"), "pooler"],
        call_sites=[f"{MODELING}:164", f"{MODELING}:165", f"{MODELING}:430"],
        shapes=["8x128x768, 768x768, 768"],
        source="registration",
        evidence="a kernel is registered under MPS",
    ),
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
    finding("aten::_weird_new_operator.Tensor_out", "missing", native_since=None, reason="No kernel is registered."),
    finding(
        "aten::mul.Tensor",
        "unsupported",
        2,
        dtypes=["float64"],
        modules=["rotary"],
        call_sites=["C:\\project\\rotary.py:12"],
        reason="MPS has no 64-bit floating point.",
        source="message",
        evidence="linalg.lu_factor(): MPS doesn't support complex types.",
        judges=["dtype", "guard"],
    ),
    finding(
        "aten::linalg_svd",
        "fallback",
        phases={"optimizer": 1},
        native_since="2.15.0",
        input_bytes=25_165_824,
        output_bytes=50_331_648,
        advice="It works, slowly: about 75.5 MB are copied. Native from torch 2.15.0 on: upgrade.",
    ),
    finding("acme::rope", "unknown", 24, native_since=None, reason="No table covers the library acme."),
    finding("aten::mul.Tensor", calls=40, source="branch", evidence="the call goes to MPS by the type of its device"),
]


def failed() -> CoverageReport:
    """A run that stopped in the backward pass."""
    message = "shape '[8, 128]' is invalid for input of size 3"
    failure = {"phase": "backward", "error": "RuntimeError", "message": message, "module": "encoder.layer.3.attention"}
    return coverage("2.6.0", NATIVE[:2], failure={**failure, "call_site": f"{MODELING}:201"})


ADVISORIES: list[dict[str, Any]] = [
    {
        **SAMPLE["advisories"][0],
        "id": "attention-causal-half",
        "torch": {"seen": ["2.10.0", "2.12.1"], "fixed": "2.13.0"},
        "macos": {},
        "sources": ["pytorch/pytorch#195910", "https://example.org/report"],
        "modules": layers("encoder.layer.{}.attention.self"),
        "call_sites": [f"{MODELING}:282"],
    },
    {
        **SAMPLE["advisories"][0],
        "id": "bmm-long-reduction",
        "title": "Batched matrix products add memory beyond their operands",
        "torch": {"since": "2.7.0", "open": True},
        "macos": {"since": "15.0", "fixed": "26.4"},
        "operators": ["aten::bmm"],
        "phases": {"backward": 1},
    },
]


def advised() -> CoverageReport:
    """Everything native, and two known wrong results."""
    counted = {**summary(NATIVE, "2.5.0"), "advisories": len(ADVISORIES)}
    return coverage("2.12.1", NATIVE, advisories=ADVISORIES, summary=counted)


def mixed() -> CoverageReport:
    """Training with every verdict and the evidence for each, something not judged and an assumption."""
    workload = {**BERT, **SIZES, "phase": "training", "autocast": "bfloat16", "grad_accum": 4, "optimizer": "AdamW"}
    operators = FINDINGS + NATIVE
    counts = {"missing": 2, "unsupported": 1, "fallback": 1, "unknown": 1, "native": 5}
    assumed = "a condition on values was taken to be false"
    return coverage(
        "2.6.0",
        operators,
        workload={**workload, "notes": ["Labels are random."]},
        summary={**summary(operators), "operators": 10, "operators_by_verdict": counts},
        not_judged=[{"operator": "triton::kernel", "reason": "a kernel of its own, not an operator", "calls": 3}],
        data_dependence=[{**SAMPLE["data_dependence"][0], "assumed": assumed}],
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
        calls = {"calls": 200, "operators": total, "calls_by_verdict": {}, "operators_by_verdict": counts}
        failure = {"phase": "forward", "error": "RuntimeError", "message": "too old"} if torch == "1.12.1" else None
        cells.append({"target": {"torch": torch}, "findings": found, "summary": calls, "failure": failure})
    return of_releases(cells, native_since="2.15.0")


def samples() -> list[Report]:
    """The devkit's: every kind that there is, with every field."""
    return [*(one for kind, one in sample_reports().items() if kind != "weather"), sample_coverage_comparison()]


def examples() -> dict[str, Report]:
    """The reports that golden files show, by name."""
    made = sample_reports()
    return {
        "native": coverage("2.15.0", NATIVE, summary=summary(NATIVE, "2.5.0")),
        "mixed": mixed(),
        "explained": mixed().model_copy(update={"explained": True}),
        "failed": failed(),
        "matrix": matrix(),
        "advised": advised(),
        "empty": coverage("2.15.0", []),
        "sample": sample_coverage_report(),
        "sample-matrix": sample_matrix_report(),
        "measured": made["profile"],
        "compared": sample_comparison_report(),
        "compared-coverage": sample_coverage_comparison(),
        "several": made["coverage-several"],
        "checkpoint": made["checkpoint"],
        "fit": made["fit"],
        "upgrade": made["upgrade"],
        "ranking": made["ranking"],
        "verification": made["verification"],
        "precision": made["precision"],
        "generate": read_report(GALLERY / "generate.json"),
        "program": read_report(GALLERY / "program.json"),
    }


FORMULAS = ("+1", "-1", "@SUM(1)", " =1", "\uff1d1")
MARKUP = ("<!-- comment", "\\|", "`\\`|", "| a | b |", "# heading", "{0..3}.{a,b}", "$x^2$ @someone #1", "word " * 1000)
PREFIXED = ("aten::<b>|x`\x1b", "/x/\u202e\n:1", "a.0.\x00", "zero\u200bwidth\ufeff")
HOSTILE = [*HOSTILE_TEXTS.values(), *FORMULAS, *MARKUP, *PREFIXED]

texts = hostile_texts() | st.sampled_from(HOSTILE)


def of_cells(*cells: ProfileCell, **more: Any) -> ProfileReport:
    """The sample of a profile with other cells."""
    return sample_profile_report().model_copy(update={"cells": list(cells), **more})


def profile_of(**changed: Any) -> ProfileReport:
    """The sample of a profile with its first cell alone, changed."""
    return of_cells(sample_profile_report().cells[0].model_copy(update=changed))


def on_any_text(test: Callable[[str], None]) -> Callable[..., None]:
    """Runs a test with each hostile text, and with twenty others at random."""
    for known in HOSTILE:
        test = example(text=known)(test)
    return settings(max_examples=20, deadline=None)(given(text=texts)(test))


def hostile_coverage(text: str) -> CoverageReport:
    """A report with ``text`` wherever it takes one."""
    made = with_text(sample_coverage_report(), text)
    assert isinstance(made, CoverageReport)
    return made


def hostile_matrix(text: str) -> MatrixReport:
    """The same of many releases."""
    made = with_text(sample_matrix_report(), text)
    assert isinstance(made, MatrixReport)
    cells = [  # no release is in a report twice
        one.model_copy(update={"target": one.target.model_copy(update={"torch": f"{prefix}{text}"})})
        for one, prefix in zip(made.releases, ("", "2.0.", "v"), strict=True)
    ]
    return made.model_copy(update={"releases": cells})


def hostile_profile(text: str) -> ProfileReport:
    """A profile with ``text`` wherever it takes one, and figures that no run gives."""
    made = with_text(sample_profile_report(), text)
    assert isinstance(made, ProfileReport)
    cell = made.cells[0]
    assert cell.step is not None and cell.memory is not None
    spent = (0, 10**400, 5, 5, 5)
    steps = [one.model_copy(update={"duration_ns": ns}) for one, ns in zip(cell.steps, spent, strict=True)]
    statistics: dict[str, Any] = {"median_ns": -5.0, "low_ns": 0.0, "high_ns": 1e300, "spread": -1.0, "mean_ns": -1.0}
    step = cell.step.model_copy(update={**statistics, "minimum_ns": -7.0, "maximum_ns": 1e308})
    curve = {"times_ns": [0, 10**400], "allocated_bytes": [1, -(10**400)], "process_bytes": [1]}
    memory = {"peak_allocated_bytes": -1, "peak_process_bytes": 10**400}
    odd = {
        "steps": steps,
        "step": step,
        "batch_size": 10**400,
        "seq_len": -1,
        "first_call_ns": [-1, 10**400],
        "phases": dict.fromkeys((text, "forward"), step),
        "phase_samples_ns": {text: [-1, 0, 10**400]},
        "throughput": [one.model_copy(update={"per_second": -1.0, "high": 1e308}) for one in cell.throughput],
        "memory": cell.memory.model_copy(update={**memory, "curve": cell.memory.curve.model_copy(update=curve)}),
        "operators": [one.model_copy(update={"calls": 10**400, "self_host_ns": 10**400}) for one in cell.operators],
        "fallbacks": [one.model_copy(update={"duration_ns": -1, "bytes": -1}) for one in cell.fallbacks],
    }
    if cell.trace is not None:
        odd["trace"] = cell.trace.model_copy(update={"duration_ns": [10**400] * len(cell.trace.duration_ns)})
    return made.model_copy(update={"cells": [cell.model_copy(update=odd), *made.cells[1:]]})


def hostile_comparisons(text: str) -> list[Report]:
    """Comparisons with ``text`` wherever they take one."""
    return [with_text(one, text) for one in samples() if isinstance(one, ComparisonReport)]


def hostile_reports(text: str) -> list[Report]:
    """One of each kind, and odd figures in one of them."""
    others = [with_text(one, text) for one in samples() if one.kind not in ("coverage-matrix", "profile")]
    return [hostile_matrix(text), hostile_profile(text), *others]
