"""One job of ``verdicts.py``: trace it, and write every call and every part of the report as a line of JSON."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ON_MACOS_13 = ("1.12.1", "2.0.1", "2.2.2", "2.5.1", "2.8.0")
LONGEST = ("deepseek-v3", "mixtral-8x7b", "llama-3-70b", "mask2former", "bark", "whisper-large-v3", "blip-2", "gpt2-xl")
CALL, FINDING, REPORT = "call", "finding", "report"


@dataclass(frozen=True)
class Job:
    """A workload with options, on some releases."""

    workload: str
    options: tuple[tuple[str, str], ...]
    releases: tuple[str, ...]

    @property
    def name(self) -> str:
        """``bert-base training autocast=float16``."""
        shown = (value if key == "phase" else f"{key}={value}" for key, value in self.options)
        return " ".join((self.workload, *shown))


@dataclass
class Sheet:
    """A line of the file: what was recorded of one job, each distinct string and entry once."""

    job: str
    strings: dict[str, int] = field(default_factory=dict)
    entries: dict[tuple[int, ...], int] = field(default_factory=dict)
    cells: dict[str, list[list[int]]] = field(default_factory=dict)

    def add(self, cell: str, kind: str, key: Sequence[Any], value: dict[str, Any], count: int = 1) -> None:
        """One entry; ``key`` begins with the operator, and ``value`` is what is compared."""
        texts = (kind, json.dumps(key), json.dumps(value))
        numbers = (*(self.strings.setdefault(text, len(self.strings)) for text in texts), count)
        entry = self.entries.setdefault(numbers, len(self.entries))
        ranges = self.cells.setdefault(cell, [])
        if ranges and ranges[-1][1] == entry:
            ranges[-1][1] += 1
        else:
            ranges.append([entry, entry + 1])

    def write(self, path: Path) -> None:
        """Append the line to ``path``: gzip files may be put one after the other."""
        content = {"job": self.job, "strings": [*self.strings], "entries": [*self.entries], "cells": self.cells}
        with gzip.open(path, "at", encoding="utf-8") as file:
            file.write(json.dumps(content, separators=(",", ":")) + "\n")


def judgement_of(record: Any) -> dict[str, Any]:
    """What is said about a recorded call. Only this reads how the virtual device keeps its judgement."""
    judgement = record.judgement._asdict()
    return {name: value for name, value in judgement.items() if name != "asked"}


def record_job(job: Job, path: Path) -> None:
    """Trace the job in this process, and write its line to ``path``."""
    import torch

    from mpsprobe.errors import MpsprobeError
    from mpsprobe.plugins.registry import get_registry
    from mpsprobe.progress import SilentProgress
    from mpsprobe.protocols import RunOptions
    from mpsprobe_coverage.devices.virtual import VirtualDevice
    from mpsprobe_coverage.knowledge.kernels.backends import family_named
    from mpsprobe_coverage.scanning.scan import CoverageScanner
    from mpsprobe_coverage.scanning.tracing import Tracer

    torch.set_num_threads(1)
    sheet, options = Sheet(job.name), RunOptions(**dict(job.options))  # type: ignore[arg-type]
    family = family_named(options.backend)
    tables = [family.target(release) for release in job.releases]
    newest = max(set(job.releases) & {_installed()}, default=job.releases[-1])
    try:
        workload = get_registry().workload(job.workload)
        _seed()
        with VirtualDevice(tables[-1]).construction():
            run: Any = workload.build(options)
        size = sum(p.numel() * p.element_size() for p in run.model.parameters())
        tracer = Tracer(run, options)
        for table in tables:
            _seed()
            _add_trace(sheet, tracer.trace(table), size, options.macos)
        _seed()
        report = CoverageScanner().scan(workload, options, [newest], SilentProgress()).model_dump(mode="json")
        report.pop("environment")
        _add_report(sheet, f"{newest} alone", report.pop("operators"), report)
    except MpsprobeError as error:
        sheet.add("none", REPORT, ["cannot be built"], {"error": str(error)})
    sheet.write(path)


def _add_trace(sheet: Sheet, traced: Any, parameters_bytes: int, macos: str | None) -> None:
    from mpsprobe.assembling import summary_of
    from mpsprobe.protocols import MacOptions
    from mpsprobe_coverage.reporting import findings as reported

    recorder, table = traced.recorder, traced.table
    for record in recorder.calls():
        origin = record.origin
        site = reported.site(origin.file, origin.line) if origin.file else None
        specs = [[_spec(spec) for spec in specs] for specs in (record.inputs, record.outputs)]
        key = [record.operator, record.phase, origin.module, site, *specs]
        sheet.add(table.release, CALL, key, judgement_of(record), record.calls)
    operators = reported.findings(recorder, table)
    parts = {
        "not judged": reported.not_judged(recorder),
        "data dependence": reported.data_dependence(recorder),
        "macOS conditions": reported.macos_conditions(recorder, table),
        "advisories": reported.advisory_matches(recorder, table, MacOptions(macos=macos)),
        "first refused tensor": reported.first_refused_tensor(recorder),
        "failure": traced.failure,
        "summary": summary_of(operators, parameters_bytes=parameters_bytes),
    }
    plain = {name: _plain(part) for name, part in parts.items()}
    _add_report(sheet, table.release, _plain(operators), plain)


def _add_report(sheet: Sheet, cell: str, operators: list[dict[str, Any]], parts: dict[str, Any]) -> None:
    for finding in operators:
        sheet.add(cell, FINDING, [finding.pop("operator")], finding)
    for name, part in parts.items():
        sheet.add(cell, REPORT, [name], part if isinstance(part, dict) else {"is": part})


def _plain(part: Any) -> Any:
    if isinstance(part, list):
        return [_plain(inner) for inner in part]
    return None if part is None else part.model_dump(mode="json")


def _spec(spec: Any) -> str:
    form = "" if str(spec.layout) == "torch.strided" else f" {spec.layout} {spec.form}"
    return f"{spec.dtype} {list(spec.shape)} {list(spec.stride)}{form}"


def _seed() -> None:
    import numpy as np
    import torch

    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)


def _installed() -> str:
    import torch

    return str(torch.__version__).partition("+")[0]


def record_audit(path: Path, processes: int) -> None:
    """Run the whole audit of the installed release and write every call and test of it to ``path``."""
    from mpsprobe.progress import SilentProgress
    from mpsprobe_tables.audit.entries import DTYPES
    from mpsprobe_tables.audit.judging import beyond_claims, judge
    from mpsprobe_tables.audit.result import ALONE, HELPED, run_audit
    from mpsprobe_tables.expectations import load_expectations

    release = _installed()
    pairs = run_audit([release], DTYPES, (ALONE, HELPED), (), processes, SilentProgress()).pairs
    expectations = load_expectations(release)
    for mode in (ALONE, HELPED):
        sheet = Sheet(f"audit {mode}")
        for pair in pairs:
            ran = pair.runs[release, mode]
            for seen in ran.calls:
                key = [seen.operator, seen.phase, pair.entry, pair.dtype, seen.inputs, seen.outputs, seen.flags]
                value: dict[str, Any]
                value = {"verdict": seen.verdict, "reason": seen.reason, "source": seen.source}
                sheet.add(release, "audit call", key, value)
            for one in ran.raised:
                what = {"message": one.message, "reference_works": one.reference_works}
                sheet.add(release, "audit error", [pair.entry, one.phase, pair.dtype, one.sample], what)
        for kind, judged in (("test", judge), ("beyond claims", beyond_claims)):
            for test in judged(pairs, expectations, mode):
                value = {"verdict": test.seen.verdict if test.seen else None, "reason": test.cause}
                value |= {"outcome": test.outcome, "expected": test.expected, "lists": test.lists}
                sheet.add(release, f"audit {kind}", [test.entry, "gradient" * test.gradient, test.dtype], value)
        sheet.write(path)


def jobs_for(workloads: Sequence[str], releases: Sequence[str]) -> list[Job]:
    """Both phases of each workload and the special ones of some, those that take longest first."""
    from mpsprobe.plugins.registry import get_registry
    from mpsprobe_coverage.knowledge.kernels.backends import family_named

    cases: list[tuple[str, dict[str, str], Sequence[str]]] = [(name, {}, releases) for name in workloads]
    old = [release for release in ON_MACOS_13 if release in releases]
    cases += [(name, {"macos": "13.0", "dtype": "bfloat16"}, old) for name in ("bert-base", "llama-3-8b", "mamba")]
    cases += [(name, {"macos": "13.0"}, old) for name in ("autoformer", "llava", "rwkv")]
    cases += [(name, {"autocast": "float16"}, releases) for name in ("bert-base", "resnet50")]
    xpu = family_named("xpu") if "xpu" in get_registry().backends() else None
    cases += [(name, {"backend": "xpu"}, xpu.releases if xpu else ()) for name in ("bert-base", "resnet50", "detr")]
    jobs = [
        Job(name, (("phase", phase), *more.items()), tuple(on))
        for name, more, on in cases
        for phase in ("training", "inference")
        if on and name in workloads
    ]
    return sorted(jobs, key=lambda job: LONGEST.index(job.workload) if job.workload in LONGEST else len(LONGEST))
