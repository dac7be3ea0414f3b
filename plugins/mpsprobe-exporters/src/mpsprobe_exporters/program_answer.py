"""A program's report apart from its operators: where it ran, what stayed on the CPU or is written for CUDA."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from mpsprobe_exporters.plain_text import call_site, listed, one_line, plural, shortened
from mpsprobe_exporters.units import byte_size

if TYPE_CHECKING:
    from mpsprobe.schemas import ComputedOnCpu, CudaHint, OnTheCpu, ProgramInfo

CUDA = "Written for CUDA, which no Mac has"
STAYED = "On the CPU all along, while MPS was there"
COMPUTED = "Computed on the CPU, while MPS was there"
MOST = 3


def stayed_on_cpu(program: ProgramInfo, *, ran: bool) -> list[str]:
    """What comes before all else: work that the CPU did all along while MPS was there; ``ran``: anything ran on MPS."""
    stayed = [_stayed(one) for one in program.stayed_on_cpu]
    lines = [f'{STAYED}: {listed(shortened(stayed, MOST))}. Move it there with .to("mps")'] if stayed else []
    computed = [_computed(one) for one in program.computed_on_cpu]
    lines += [f"{COMPUTED}: {listed(shortened(computed, MOST))}"] if computed else []
    others = program.processes_unreported
    alone = "in the program itself, but it started others" if others else "no tensor of the program was there"
    return lines if ran else [*lines, f"Nothing ran on MPS: {alone}"]


def _stayed(one: OnTheCpu) -> str:
    where = f", at {call_site(one.call_site)}" if one.call_site else ""
    calls, size = plural(one.calls, "call"), byte_size(one.parameters_bytes)
    return f"{one_line(one.module)} ({calls}{where}; {size} of parameters)"


def _computed(one: ComputedOnCpu) -> str:
    where = call_site(one.call_site) if one.call_site else "a line that is not known"
    what = " ".join(shortened([one_line(name) for name in one.operators], 1))
    share = f"{one.share:.0%}" if one.share >= 0.005 else "less than 1%"
    return f"{where} ({what}, {plural(one.calls, 'call')}; {byte_size(one.data_bytes)}, {share} of all data)"


def command(program: ProgramInfo) -> str:
    """The program's own arguments, with a space before them."""
    return f" {one_line(shlex.join(program.arguments), 80)}" if program.arguments else ""


def run(program: ProgramInfo) -> list[str]:
    """How it went, as the line about the workload has it."""
    ended = [f"exit code {program.exit_code}"] if program.exit_code > 0 else []
    ended += [f"ended by signal {-program.exit_code}"] if program.exit_code < 0 else []
    return [f"{program.seconds:,.1f} s", *ended]


def method(program: ProgramInfo) -> str:
    """Where it ran: ``on the virtual MPS device``."""
    kind, _, how = one_line(program.device).partition(", ")
    if kind != "virtual":
        return f"on {kind}"
    shapes = " without values" if program.values == "none" else ""
    return f"on a virtual MPS device{f' {how}' if how else ''}{shapes}"


def notes(program: ProgramInfo) -> list[str]:
    """What else to know of the run."""
    reported = program.processes - program.processes_unreported
    counts = ((reported, "in the report"), (program.processes_unreported, "not in the report"))
    others = [
        f"{plural(count, 'process', 'processes')} that the program started {'is' if count == 1 else 'are'} {where}"
        for count, where in counts
        if count > 0
    ]
    threads = [f"{plural(program.threads, 'thread')} of the program called operators"] if program.threads > 1 else []
    return [*others, *threads, *program.notes]


def cuda(program: ProgramInfo) -> list[tuple[str, str]]:
    """What is written for CUDA, and for each what to write instead, with the lines."""
    return [(one_line(one.what), f"{_sites(one)}; instead: {one_line(one.instead)}") for one in program.cuda]


def _sites(one: CudaHint) -> str:
    return ", ".join(shortened([call_site(place) for place in one.call_sites], MOST))
