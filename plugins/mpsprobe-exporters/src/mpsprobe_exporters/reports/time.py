"""How long a step was predicted to take on a chip: a line, and where the time goes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mpsprobe_exporters.document import Column, Section, bullets, table
from mpsprobe_exporters.plain_text import one_line
from mpsprobe_exporters.units import amount, duration, percent

if TYPE_CHECKING:
    from mpsprobe import schemas
    from mpsprobe_exporters.document import Cell, Fields

TITLE = "Predicted time"
BOUND = {
    "arithmetic": "the GPU's arithmetic",
    "bandwidth": "the memory's bandwidth",
    "launches": "launching kernels on the CPU",
    "cpu": "operators that are left to the CPU",
}
CLASSES: Fields[None, schemas.ClassTime] = (
    (Column("class", "name"), lambda _, share: share.kind),
    (Column("time", "time"), lambda _, share: share.ms * 1e6),
    (Column("share", "share", rank=1), lambda _, share: share.share),
)
OPERATORS: Fields[None, schemas.OperatorTimeShare] = (
    (Column("operator", "name"), lambda _, share: share.operator),
    (Column("time", "time"), lambda _, share: share.ms * 1e6),
    (Column("class", rank=1), lambda _, share: share.kind),
)
MODULES: Fields[None, tuple[str, float]] = (
    (Column("where", "name"), lambda _, row: row[0] or "(outside of all modules)"),
    (Column("time", "time"), lambda _, row: row[1] * 1e6),
)
FASTER: Fields[None, schemas.Faster] = (
    (Column("faster with", "name"), lambda _, faster: faster.change),
    (Column("speed"), lambda _, faster: f"{amount(faster.gain)} x"),
    (Column("a step then"), lambda _, faster: _between(faster.step_ms)),
)
MOST = 12  # operators that are shown


def line(time: schemas.TimePrediction | None) -> list[str]:
    """``Time: 18 to 30 ms a step on m2-pro, predicted: …, bound by …``; nothing where no chip was asked about."""
    if time is None or not step(time):
        return []
    rates = [
        f"{amount(rate[0])} to {amount(rate[2])} {what}/s"
        for rate, what in ((time.samples_per_s, "samples"), (time.tokens_per_s, "tokens"))
        if rate and len(rate) == len(time.step_ms)
    ]
    said = ", ".join([f"{step(time)} on {machine(time)}", *rates, f"bound by {BOUND[time.bound_by]}"])
    wide = [f"The range is wide: {one_line(time.why_wide, 300)}"] if time.why_wide else []
    changes = ", ".join(f"{amount(faster.gain)} x with {one_line(faster.change, 60)}" for faster in time.faster)
    faster = [f"Faster, by the same prediction and each change alone: {changes}"] if changes else []
    return [f"Time, predicted and not measured: {said}", *wide, *faster]


def step(time: schemas.TimePrediction | None) -> str:
    """``5.28 ms to 14.1 ms a step``; empty where there is no range."""
    between = "" if time is None else _between(time.step_ms)
    return between and f"{between} a step"


def _between(step_ms: list[float]) -> str:
    if len(step_ms) != len(("low", "likely", "high")):
        return ""
    low, _, high = (duration(ms * 1e6) for ms in step_ms)
    return f"{low} to {high}"


def machine(time: schemas.TimePrediction) -> str:
    """``m1-max-32core``."""
    return one_line(time.chip, 60) + (f"-{time.gpu_cores}core" if time.gpu_cores else "")


def sections(time: schemas.TimePrediction | None) -> Iterator[Section]:
    if time is None:
        return
    launches = bullets([f"launching all kernels takes the CPU {duration(time.launch_ms * 1e6)}, mostly meanwhile"])
    rows = table(CLASSES, None, time.by_class, "By class of kernel")
    operators = table(OPERATORS, None, time.by_operator[:MOST], "By operator")
    modules = table(MODULES, None, [*time.by_module.items()], "By module")
    faster = table(FASTER, None, time.faster, "What would make it faster, each change alone")
    blocks = [*faster, *rows, *operators, *modules, *launches]
    yield Section(f"{TITLE} of the GPU", blocks, view="Time", depth="all")


def record(time: schemas.TimePrediction) -> dict[str, Cell]:
    parts = ", ".join(f"{share.kind} {percent(share.share)}" for share in time.by_class[:3])
    return {"verdict": "time", "reason": f"{'; '.join(line(time))}; {parts}"}
