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
    (Column("dtype", "name", "dtype"), lambda _, stored: stored.name),
    (Column("for", key="role", rank=3), lambda _, stored: ROLES[stored.role]),
    (Column("parameters", "number", "parameters", rank=2), lambda _, stored: stored.parameters or None),
    (Column("bytes", "bytes", "bytes"), lambda _, stored: stored.bytes),
    (Column("MPS", key="use"), lambda _, stored: USES[stored.use]),
    (Column("since torch", key="since", about=SINCE, rank=1), lambda _, stored: stored.since),
    (Column("convert to", key="convert_to", rank=1), lambda _, stored: stored.convert_to),
    (
        Column("then takes", "bytes", where="column", rank=2),
        lambda _, stored: stored.converted_bytes if stored.convert_to else None,
    ),
    (Column("then takes", "number", "converted_bytes", where="record"), lambda _, stored: stored.converted_bytes),
    (Column("tensors", "number", "tensors", rank=4), lambda _, stored: stored.tensors),
    (Column("why", key="reason", where="more"), lambda _, stored: stored.reason),
)
"""All that is shown of a dtype, in every format."""
PARTS: Fields[CheckpointReport, CheckpointPart] = (
    (Column("part", "name"), lambda _, part: part.name or "all"),
    (Column("class", "name", rank=2), lambda _, part: part.model_class),
    (Column("format", rank=3), lambda _, part: part.format),
    (Column("parameters", "number", rank=1), lambda _, part: part.parameters or None),
    (Column("bytes", "bytes"), lambda _, part: part.bytes),
    (Column("dtypes", "names", rank=1), lambda _, part: tuple(part.dtypes)),
    (Column("quantized", rank=2), lambda _, part: part.quantization.method if part.quantization else None),
)
FILES: Fields[CheckpointReport, CheckpointFile] = (
    (Column("file", "name"), lambda _, file: file.name),
    (Column("format", rank=1), lambda _, file: file.format),
    (Column("tensors", "number", rank=2), lambda _, file: file.tensors),
    (Column("bytes", "bytes"), lambda _, file: file.bytes),
)
IMPORTS: Fields[CheckpointReport, PickleImport] = (
    (Column("asks for", "name"), lambda _, imported: imported.name),
    (Column("which"), lambda _, imported: KINDS[imported.kind]),
    (Column("times", "number", rank=1), lambda _, imported: imported.times),
)


def document(report: CheckpointReport) -> Document:
    bad, code = (
        _problem(report),
        [one_line(imported.name, 100) for imported in report.imports if imported.kind == "code"],
    )
    asks = f"Its pickle asks for {', '.join(code[:5])}: loading it runs code that somebody else wrote"
    suspicious = [imported for imported in report.imports if imported.kind != "weights"]
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
            Section("What to do", bullets(one_line(advice, 1000) for advice in report.advice), depth="lead"),
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
    blocked = [part for part in report.parts if part.quantization and part.quantization.mps == "none"]
    if blocked:
        return f"{one_line(blocked[0].quantization.method, 40) if blocked[0].quantization else ''} does not run on MPS"
    if any(one.kind == "code" for one in report.imports):
        return "its pickle can run any code"
    if report.missing:
        return f"{plural(len(report.missing), 'file')} missing"
    quantized = any(part.quantization for part in report.parts)
    named = [
        dtype.name
        for dtype in report.dtypes
        if dtype.use in ("refused", "held") and not (quantized and dtype.use == "held")
    ]
    return f"MPS does not compute with {', '.join(map(one_line, named[:3]))}" if named else ""


def _headline(report: CheckpointReport, problem: str) -> str:
    size = f"{number(report.parameters)} parameters in {byte_size(report.bytes)}"
    on = f"on torch {one_line(report.torch, 40)}"
    if problem:
        return f"{size}: {problem}" if "MPS does not compute" not in problem else f"{size}: {problem} {on}"
    kept = [part.quantization for part in report.parts if part.quantization]
    if kept:
        return f"{size}: {one_line(kept[0].method, 40)} {PATHS[kept[0].mps]} on MPS"
    return f"{size}: MPS computes with every dtype {on}"


def _lines(report: CheckpointReport) -> Iterator[str]:
    of = [part.model_class for part in report.parts if part.model_class]
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
