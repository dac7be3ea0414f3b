"""What was run, and how the report is known, in lines; of a program also where it ran, and what was not on MPS."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from mpsprobe_exporters import backends
from mpsprobe_exporters.document import Bullet
from mpsprobe_exporters.plain_text import call_site, listed, one_line, plural, shortened
from mpsprobe_exporters.units import byte_size, number, quantity

if TYPE_CHECKING:
    from mpsprobe import schemas
    from mpsprobe.schemas import CoverageReport, Environment, ProgramInfo, Recalled, WorkloadInfo
    from mpsprobe_exporters.supported import AnyReport

LONGEST = 60  # of a workload's name
TIME = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d)(:\d\d)?(?:Z|\+00:00)", re.ASCII)
CUDA = "Written for CUDA, which no Mac has"
UNWATCHED = "not in the report: those that are spawned are watched, those that are forked are not"
STAYED = "On the CPU all along, while MPS was there"
COMPUTED = "Computed on the CPU, while MPS was there"
MOST_PLACES = 3


def workload_line(workload: WorkloadInfo, program: ProgramInfo | None = None, calls: Sequence[str] = ()) -> str:
    """``bert-base (BertModel, 109.5 M parameters), training, float32, batch 8 x 128, 767 calls``."""
    counted = workload.phase != "program" or bool(workload.architecture)
    ran = []
    if program is not None:
        ran = [f"{program.seconds:,.1f} s"]
        ran += [f"exit code {program.exit_code}"] if program.exit_code > 0 else []
        ran += [f"ended by signal {-program.exit_code}"] if program.exit_code < 0 else []
    return ", ".join([*setting(_named(workload, program), _sizes(workload), counted=counted), *calls, *ran])


def in_short(report: CoverageReport) -> str:
    """What was run and how it is known, in about a line."""
    named = _named(report.workload, report.program).model_copy(update={"architecture": None})
    run = ", ".join(setting(named, _sizes(report.workload), counted=False))
    return f"{run}; {'observed' if report.method == 'observed' else 'predicted'} with {_torch(report.environment)}"


def fit_command(report: CoverageReport) -> str:
    """What finds the largest batch for the same Mac."""
    command = shlex.join(["mpsprobe", "fit", one_line(report.workload.name, LONGEST), "--phase", report.workload.phase])
    return f"{command}, for the same Mac, finds the largest batch that fits, and what saves memory"


def _named(workload: WorkloadInfo, program: ProgramInfo | None) -> WorkloadInfo:
    if program is None:
        return workload
    arguments = f" {one_line(shlex.join(program.arguments), 80)}" if program.arguments else ""
    return workload.model_copy(update={"name": one_line(workload.name, LONGEST) + arguments})


def _sizes(workload: WorkloadInfo) -> list[str]:
    size = " x ".join(number(n) for n in (workload.batch_size, workload.seq_len) if n is not None)
    return [("batch " if workload.batch_size is not None else "sequence ") + size] if size else []


def setting(
    workload: WorkloadInfo, sizes: Sequence[str] = (), compiled: Sequence[str] = (), counted: bool = True
) -> list[str]:
    """What was run and how: ``bert-base (BertModel, 109.5 M parameters)``, ``training``, ``float32``, ….

    ``counted``: whether the number of parameters is known.
    """
    model = [one_line(workload.architecture)] if workload.architecture else []
    model += [f"{quantity(workload.parameters)} parameters"] if counted else []
    passes = f"{plural(workload.grad_accum, 'pass', 'passes')} for each optimizer step"
    parts = [
        one_line(workload.name, 2 * LONGEST) + (f" ({', '.join(model)})" if model else ""),
        workload.phase,
        one_line(workload.dtype or ""),
        f"autocast {one_line(workload.autocast)}" if workload.autocast else "",
        *sizes,
        f"LoRA of rank {workload.lora_rank}" if workload.lora_rank else "",
        f"{quantity(workload.trained)} parameters trained" if workload.trained is not None else "",
        passes if workload.grad_accum != 1 else "",
        one_line(workload.optimizer or ""),
        *compiled,
        "real weights" if workload.weights else "",
    ]
    return [part for part in parts if part]


def method_lines(report: AnyReport) -> list[str]:
    """How it is known: predicted with which torch, or observed; and whether it was known before."""
    program, macos = (report.program, report.target.macos) if report.kind == "coverage" else (None, None)
    judged = backends.other(backends.target(report)) or (f"macOS {one_line(macos)}" if macos else "")
    target = f" for {judged}" if judged else ""
    ran = "traced" if program is None else f"run {_where(program)}"
    how = "Observed" if report.method == "observed" else f"Predicted{target}: {ran}"
    return [f"{how} with {made_with(report.environment)}", *recalled(report.recalled, report.environment)]


def recalled(known: Recalled | None, environment: Environment | None = None) -> list[str]:
    """``From the cache, of 2026-11-22 19:30 UTC: mpsprobe 0.1.0, torch 2.13.0``; then what differs."""
    if known is None:
        return []
    by = [f"mpsprobe {one_line(environment.mpsprobe, 40)}"] if environment else []
    for name in ("torch", "tensorflow", "transformers"):
        version = getattr(environment, name, None)
        by += [f"{name} {one_line(version, 40)}"] if version else []
    made = ": ".join(filter(None, (when(known.made), ", ".join(by))))
    return [f"From {source(known)}, of {made}", *(one_line(note, 400) for note in known.notes)]


def when(made: str) -> str:
    """``2026-11-22 19:30 UTC`` of the time in a report."""
    return one_line(TIME.sub(r"\1 \2 UTC", made), 40)


def source(known: Recalled) -> str:
    return "the cache" if known.source == "cache" else one_line(known.source, 60)


def made_with(environment: Environment) -> str:
    """``torch 2.13.0+cpu and transformers 5.1.0 on Linux-6.1-x86_64``."""
    libraries = [_torch(environment)]
    libraries += [f"transformers {one_line(environment.transformers)}"] if environment.transformers else []
    return f"{' and '.join(libraries)} on {one_line(environment.platform)}"


def _torch(environment: Environment) -> str:
    if environment.tensorflow:
        return f"tensorflow {one_line(environment.tensorflow)}"
    build = f"+{one_line(environment.torch_build)}" if environment.torch_build else ""
    return f"torch {one_line(environment.torch)}{build}" if environment.torch else "an unnamed torch"


def stayed_on_cpu(program: ProgramInfo, *, ran: bool) -> list[str]:
    """What comes before all else: work that the CPU did all along while MPS was there; ``ran``: anything ran on MPS."""
    stayed = [_stayed(stayed) for stayed in program.stayed_on_cpu]
    lines = [f'{STAYED}: {listed(shortened(stayed, MOST_PLACES))}. Move it there with .to("mps")'] if stayed else []
    computed = [_computed(computed) for computed in program.computed_on_cpu]
    lines += [f"{COMPUTED}: {listed(shortened(computed, MOST_PLACES))}"] if computed else []
    others = program.processes_unreported
    alone = "in the program itself, but it started others" if others else "no tensor of the program was there"
    return lines if ran else [*lines, f"Nothing ran on MPS: {alone}"]


def _stayed(stayed: schemas.OnTheCpu) -> str:
    where = f", at {call_site(stayed.call_site)}" if stayed.call_site else ""
    calls, size = plural(stayed.calls, "call"), byte_size(stayed.parameters_bytes)
    return f"{one_line(stayed.module)} ({calls}{where}; {size} of parameters)"


def _computed(computed: schemas.ComputedOnCpu) -> str:
    where = call_site(computed.call_site) if computed.call_site else "a line that is not known"
    what = " ".join(shortened([one_line(name) for name in computed.operators], 1))
    share = f"{computed.share:.0%}" if computed.share >= 0.005 else "less than 1%"
    return f"{where} ({what}, {plural(computed.calls, 'call')}; {byte_size(computed.data_bytes)}, {share} of all data)"


def _where(program: ProgramInfo) -> str:
    """Where it ran: ``on the virtual MPS device``."""
    kind, _, how = one_line(program.device).partition(", ")
    if kind != "virtual":
        return f"on {kind}"
    shapes = " without values" if program.values == "none" else ""
    return f"on a virtual MPS device{f' {how}' if how else ''}{shapes}"


def program_notes(program: ProgramInfo) -> list[str]:
    reported = program.processes - program.processes_unreported
    counts = ((reported, "in the report"), (program.processes_unreported, UNWATCHED))
    others = [
        f"{plural(count, 'process', 'processes')} that the program started {'is' if count == 1 else 'are'} {where}"
        for count, where in counts
        if count > 0
    ]
    threads = [f"{plural(program.threads, 'thread')} of the program called operators"] if program.threads > 1 else []
    return [*others, *threads, *program.notes]


def cuda(program: ProgramInfo | None) -> Iterator[Bullet]:
    """What is written for CUDA, and for each what to write instead, with the lines."""
    for hint in program.cuda if program else ():
        sites = ", ".join(shortened([call_site(place) for place in hint.call_sites], MOST_PLACES))
        yield Bullet(f"{sites}; instead: {one_line(hint.instead)}", one_line(hint.what))
