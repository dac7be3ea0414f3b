"""A coverage report as a card: will it run on that Mac? Four lights, one sentence, the next command."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from mpsprobe.doubts import applying, exceeds, guesses
from mpsprobe_exporters import answer, backends, workload_lines
from mpsprobe_exporters.document import Column, Document, Paragraph, Section, table
from mpsprobe_exporters.plain_text import listed, one_line, plural
from mpsprobe_exporters.reports import time
from mpsprobe_exporters.units import byte_size, number

if TYPE_CHECKING:
    from mpsprobe.schemas import CoverageReport, MemoryFit
    from mpsprobe_exporters.document import Fields

Color = Literal["good", "caution", "bad", "unknown"]
CHIP = re.compile(r"(m\d+)(?:-(pro|max|ultra))?(?:-\d+core)?(?:-(\d+)gb)?", re.ASCII)
LONGEST = 48  # of a workload's name
GIB = 2**30


class Light(NamedTuple):
    about: str
    color: Color
    said: str


class Card(NamedTuple):
    name: str
    mac: str  # ``an M2 Pro with 16 GB``
    lights: Sequence[Light]
    sentence: str
    command: str  # what to do next
    made: str  # of what, and how it is known


FIELDS: Fields[None, Light] = (
    (Column("what"), lambda _, light: light.about),
    (Column("light", "verdict"), lambda _, light: light.color),
    (Column("why"), lambda _, light: light.said),
)


def document(report: CoverageReport) -> Document:
    card = card_of(report)
    return Document(
        title=card.name,
        headline=card.sentence,
        lines=[card.made],
        sections=[
            Section("", table(FIELDS, None, card.lights, "Lights")),
            Section("", [Paragraph(f"Next: `{card.command}`")]),
        ],
    )


def card_of(report: CoverageReport) -> Card:
    name, fits = one_line(report.workload.name, LONGEST), _fits(report)
    lights = [_operators(report), _memory(report, fits), _numbers(report), _speed(report)]
    return Card(
        name, _mac(fits), lights, _sentence(report, name, fits, lights), _command(report, fits, lights),
        workload_lines.in_short(report),
    )  # fmt: skip


def _operators(report: CoverageReport) -> Light:
    if report.failure:
        return Light("Operators", "bad", f"the run stopped: {one_line(report.failure.error, 80)}")
    summary, counts = report.summary, answer.findings_of(report.summary)
    native, on = answer.native_of(summary), backends.on_release(report.target)
    if not summary.operators:
        return Light("Operators", "unknown", f"none was judged on {on}")
    raising = any(summary.operators_by_verdict.get(verdict) for verdict in ("missing", "unsupported"))
    doubtful = counts or report.not_judged or guesses(report)
    said = f"{native} native on {on}" + (f"; {', '.join(counts)}" if counts else "")
    return Light("Operators", "bad" if raising else "caution" if doubtful else "good", said)


def _fits(report: CoverageReport) -> Sequence[MemoryFit]:
    memory = report.memory
    return [] if memory is None else [memory.fit] if memory.fit else memory.fits


def _color(fit: MemoryFit) -> Color:
    if exceeds(fit) or fit.answer == "raises":
        return "bad"
    return "good" if fit.answer == "fits" else "caution"


def _memory(report: CoverageReport, fits: Sequence[MemoryFit]) -> Light:
    if report.memory is None or report.failure:
        return Light("Memory", "unknown", "not known")
    needs = f"needs {byte_size(report.memory.reserved_bytes)}"
    colors = [_color(fit) for fit in fits]
    words: dict[Color, str] = {"good": "fits", "caution": "may swap", "bad": "does not fit"}
    if len(fits) < 2:
        return Light("Memory", *((colors[0], f"{needs}: {words[colors[0]]}") if colors else ("unknown", needs)))
    parts = [f"{words[word]} with {_sizes(fits, word)}" for word in words if word in colors]
    worst: Color = colors[0] if len(set(colors)) == 1 else "caution"
    return Light("Memory", worst, f"{needs}: {', '.join(parts)}")


def _sizes(fits: Sequence[MemoryFit], *colors: Color) -> str:
    *others, last = [number(fit.memory_bytes // GIB) for fit in fits if _color(fit) in colors]
    return f"{', '.join(others)} or {last} GB" if others else f"{last} GB"


def _numbers(report: CoverageReport) -> Light:
    known, undecided = applying(report), len(report.advisories) - len(applying(report))
    compared = report.summary.advisories_compared
    if known:
        names = [one_line(advisory.id, 40) for advisory in known]
        said = f"{plural(len(known), 'known wrong result')}: {listed(names[:2])}{' …' if names[2:] else ''}"
        return Light("Numbers", "bad", said)
    if compared is None:
        return Light("Numbers", "unknown", "nothing is known of wrong results")
    said = f"none of {number(compared)} known wrong results applies"
    more = f"; {number(undecided)} may, by values" if undecided else ""
    return Light("Numbers", "caution" if undecided else "good", said + more)


def _speed(report: CoverageReport) -> Light:
    """Good where the GPU sets the pace, and is not waited for."""
    step = time.step(report.time)
    if report.time is None or not step:
        return Light("Speed", "unknown", "not known")
    busy = report.time.bound_by in ("arithmetic", "bandwidth")
    waits = "" if busy else "; the GPU waits"
    return Light("Speed", "good" if busy else "caution", f"{step}, predicted{waits}")


def _mac(fits: Sequence[MemoryFit]) -> str:
    """``an M2 Pro with 16 GB``, ``an M4 with 24 or 32 GB``: with the memories that are not too small, if any is not."""
    if not fits:
        return "a Mac"
    named = CHIP.fullmatch(fits[0].machine)
    if named is None:
        return one_line(fits[0].machine, 40)
    enough: tuple[Color, ...] = ("good", "caution")
    colors = enough if any(_color(fit) in enough for fit in fits) else ("bad",)
    return f"an {' '.join(filter(None, (named[1].upper(), (named[2] or '').title())))} with {_sizes(fits, *colors)}"


def _sentence(report: CoverageReport, name: str, fits: Sequence[MemoryFit], lights: Sequence[Light]) -> str:
    operators, memory, numbers, _ = (light.color for light in lights)
    mac = _mac(fits)
    if report.failure:
        return f"{name} stops before its end on {mac}"
    if memory == "bad":
        return f"{name} does not fit on {mac}"
    if operators == "bad":
        return f"{name} does not run on {mac} as it is"
    if numbers == "bad":
        return f"{name} runs on {mac}, with results that are known to be wrong"
    if operators == "caution":
        cpu = report.summary.operators_by_verdict.get("fallback")
        return f"{name} runs on {mac}, partly on the CPU" if cpu else f"{name} may run on {mac}: not all of it is known"
    if operators == "unknown":
        return f"Nothing is known of {name} on {mac}"
    return f"{name} runs on {mac}" + (", perhaps swapping" if memory == "caution" and len(fits) == 1 else "")


def _command(report: CoverageReport, fits: Sequence[MemoryFit], lights: Sequence[Light]) -> str:
    operators, memory, numbers, _ = (light.color for light in lights)
    run = report.workload
    name = [one_line(run.name, 200)]
    name += ["--phase", one_line(run.phase, 40)] if run.phase != "inference" else []
    name += ["--dtype", one_line(run.dtype, 40)] if run.dtype not in (None, "float32") else []
    machine = fits[0].machine if fits and CHIP.fullmatch(fits[0].machine) else None
    chip = ["--chip", machine] if machine else []
    if memory == "bad" and not report.failure:
        return shlex.join(["mpsprobe", "fit", *name, *chip])
    if report.failure or operators != "good":
        return shlex.join(["mpsprobe", "coverage", *name, *chip])
    if numbers == "bad":
        return shlex.join(["mpsprobe", "advisories", "show", one_line(applying(report)[0].id, 80)])
    return shlex.join(["mpsprobe", "profile", *name])
