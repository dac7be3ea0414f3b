"""What a checkpoint holds: its dtypes as rows, and the document around them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mpsprobe_exporters.document import Bullet, Column, Document, Section, bullets, table
from mpsprobe_exporters.plain_text import one_line, plural
from mpsprobe_exporters.units import byte_size, number

if TYPE_CHECKING:
    from mpsprobe.schemas import CheckpointFile, CheckpointPart, CheckpointReport, PickleImport, StoredDtype
    from mpsprobe_exporters.document import Fields

USES = {
    "computed": "computes with it",
    "held": "moves it, computes not",
    "refused": "refuses it",
    "packed": "no dtype of torch",
    "unknown": "not known",
}
ROLES = {"weights": "weights", "packed": "packed weights", "scales": "scales"}
PATHS = {
    "metal": "has Metal kernels",
    "operators": "runs by PyTorch's operators",
    "dequantized": "is unpacked when it is loaded",
    "none": "does not run",
    "unknown": "may run: not established",
}
KINDS = {"code": "can run any code", "other": "torch.load refuses it by default", "weights": "weights"}
SINCE = "from this release on, MPS computes with it"
MOST = 200  # rows that a terminal and Markdown show

FIELDS: Fields[CheckpointReport, StoredDtype] = (
    (Column("dtype", "name", "dtype"), lambda _, one: one.name),
    (Column("for", key="role", rank=3), lambda _, one: ROLES[one.role]),
    (Column("parameters", "number", "parameters", rank=2), lambda _, one: one.parameters or None),
    (Column("bytes", "bytes", "bytes"), lambda _, one: one.bytes),
    (Column("MPS", key="use"), lambda _, one: USES[one.use]),
    (Column("since torch", key="since", about=SINCE, rank=1), lambda _, one: one.since),
    (Column("convert to", key="convert_to", rank=1), lambda _, one: one.convert_to),
    (
        Column("then takes", "bytes", where="column", rank=2),
        lambda _, one: one.converted_bytes if one.convert_to else None,
    ),
    (Column("then takes", "number", "converted_bytes", where="record"), lambda _, one: one.converted_bytes),
    (Column("tensors", "number", "tensors", rank=4), lambda _, one: one.tensors),
    (Column("why", key="reason", where="more"), lambda _, one: one.reason),
)
"""All that is shown of a dtype, in every format."""
PARTS: Fields[CheckpointReport, CheckpointPart] = (
    (Column("part", "name"), lambda _, one: one.name or "all"),
    (Column("class", "name", rank=2), lambda _, one: one.model_class),
    (Column("format", rank=3), lambda _, one: one.format),
    (Column("parameters", "number", rank=1), lambda _, one: one.parameters or None),
    (Column("bytes", "bytes"), lambda _, one: one.bytes),
    (Column("dtypes", "names", rank=1), lambda _, one: tuple(one.dtypes)),
    (Column("quantized", rank=2), lambda _, one: one.quantization.method if one.quantization else None),
)
FILES: Fields[CheckpointReport, CheckpointFile] = (
    (Column("file", "name"), lambda _, one: one.name),
    (Column("format", rank=1), lambda _, one: one.format),
    (Column("tensors", "number", rank=2), lambda _, one: one.tensors),
    (Column("bytes", "bytes"), lambda _, one: one.bytes),
)
IMPORTS: Fields[CheckpointReport, PickleImport] = (
    (Column("asks for", "name"), lambda _, one: one.name),
    (Column("which"), lambda _, one: KINDS[one.kind]),
    (Column("times", "number", rank=1), lambda _, one: one.times),
)


def document(report: CheckpointReport) -> Document:
    bad, code = _problem(report), [one_line(one.name, 100) for one in report.imports if one.kind == "code"]
    asks = f"Its pickle asks for {', '.join(code[:5])}: loading it runs code that somebody else wrote"
    suspicious = [one for one in report.imports if one.kind != "weights"]
    several = len(report.parts) > 1
    more = f" and {len(report.others) - 5} more" if len(report.others) > 5 else ""
    others = [f"not counted: {', '.join(map(one_line, report.others[:5]))}{more}"] if report.others else []
    return Document(
        title=one_line(report.name, 60),
        headline=_headline(report, bad),
        tone="bad" if bad else "good",
        alerts=[asks] if code else [],
        lines=list(_lines(report)),
        notes=[*report.notes, *others],
        sections=[
            Section("What to do", bullets(one_line(one, 1000) for one in report.advice), depth="lead"),
            Section("What is inside", table(FIELDS, report, report.dtypes, "Dtypes", most=MOST)),
            Section("Its parts", table(PARTS, report, report.parts, "Parts") if several else []),
            Section("Quantization", bullets(_quantization(report))),
            Section("What its pickle asks for", table(IMPORTS, report, suspicious, "Imports", most=MOST)),
            Section("What it says about itself", bullets(_facts(report)), depth="all"),
            Section("All that its pickle asks for", table(IMPORTS, report, report.imports, "Imports"), depth="all"),
            Section("Files", table(FILES, report, report.files, "Files", most=MOST), depth="all"),
        ],
    )


def _problem(report: CheckpointReport) -> str:
    """What keeps it from MPS as it is; empty where nothing does."""
    blocked = [one for one in report.parts if one.quantization and one.quantization.mps == "none"]
    if blocked:
        return f"{one_line(blocked[0].quantization.method, 40) if blocked[0].quantization else ''} does not run on MPS"
    if any(one.kind == "code" for one in report.imports):
        return "its pickle can run any code"
    if report.missing:
        return f"{plural(len(report.missing), 'file')} missing"
    quantized = any(one.quantization for one in report.parts)
    named = [
        one.name for one in report.dtypes if one.use in ("refused", "held") and not (quantized and one.use == "held")
    ]
    return f"MPS does not compute with {', '.join(map(one_line, named[:3]))}" if named else ""


def _headline(report: CheckpointReport, problem: str) -> str:
    size = f"{number(report.parameters)} parameters in {byte_size(report.bytes)}"
    on = f"on torch {one_line(report.torch, 40)}"
    if problem:
        return f"{size}: {problem}" if "MPS does not compute" not in problem else f"{size}: {problem} {on}"
    kept = [one.quantization for one in report.parts if one.quantization]
    if kept:
        return f"{size}: {one_line(kept[0].method, 40)} {PATHS[kept[0].mps]} on MPS"
    return f"{size}: MPS computes with every dtype {on}"


def _lines(report: CheckpointReport) -> Iterator[str]:
    of = [one.model_class for one in report.parts if one.model_class]
    yield f"{one_line(report.path, 200)}{f' ({one_line(of[0], 60)})' if len(of) == 1 else ''}"
    if report.converted_bytes != report.bytes:
        yield f"Unpacked and converted to what MPS computes with, it takes {byte_size(report.converted_bytes)}"
    if report.sizes:
        sizes = ", ".join(f"{one_line(name, 40)}: {byte_size(size)}" for name, size in report.sizes.items())
        yield f"All weights as {sizes}"
    if report.machine_bytes:
        yield f"This machine has {byte_size(report.machine_bytes)} of memory"
    if report.adapter is not None:
        base = one_line(report.adapter.base_model or "an unnamed model", 100)
        yield f"An adapter ({one_line(report.adapter.method, 40)}) of {base}"
    yield "Read from headers alone: nothing was loaded"


def _quantization(report: CheckpointReport) -> Iterator[Bullet]:
    for one in {part.quantization.method: part.quantization for part in report.parts if part.quantization}.values():
        bits = f", {one.bits} bits" if one.bits else ""
        read = f" Read in {one_line(one.read_in, 200)}." if one.read_in else ""
        seen = f" {', '.join(one_line(source, 200) for source in one.sources)}" if one.sources else ""
        yield Bullet(f"{PATHS[one.mps]}{bits}.{read}{seen}", one.method)


def _facts(report: CheckpointReport) -> Iterator[Bullet]:
    for key, value in report.metadata.items():
        yield Bullet(one_line(value, 200), key)
    if report.adapter is not None:
        yield Bullet(str(report.adapter.rank or "not said"), "rank")
        yield Bullet(", ".join(report.adapter.targets[:20]) or "not said", "targets")
