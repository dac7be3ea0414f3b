"""``mpsprobe verify WORKLOAD``."""

from __future__ import annotations

import sys
from contextlib import nullcontext, redirect_stdout
from typing import TYPE_CHECKING, Any, NoReturn

import click

from mpsprobe import options
from mpsprobe.commands import Command
from mpsprobe.errors import UsageError
from mpsprobe.options import WHAT, File, Named, check_training, often, rare
from mpsprobe.output import write_atomically
from mpsprobe.plugins.registry import Registry, get_registry
from mpsprobe.progress import SilentProgress, make_progress
from mpsprobe.protocols import RunOptions, Workload
from mpsprobe.streams import note
from mpsprobe_coverage.commands import options as flags
from mpsprobe_coverage.commands.run import check_program
from mpsprobe_coverage.commands.showing import Showing

if TYPE_CHECKING:
    from collections.abc import Callable

    from mpsprobe.schemas import PrecisionReport, VerificationReport

HOW = "How it is compared"
HALVES = ("float16", "bfloat16")
MADE = "the weights of '{name}' are made: what half precision does to the real ones is not known from them"


@click.command(cls=Command)
@click.argument("name", metavar="WORKLOAD|SCRIPT", shell_complete=options.complete_workload)
@click.argument("arguments", nargs=-1, metavar="[-- ARGUMENTS]")
@often(WHAT, "--phase", type=Named("phase", ("inference", "training")), metavar="PHASE", default="training",
       help="inference, training")  # fmt: skip
@flags.model_options
@often(WHAT, "--weights", is_flag=True, help="Load real weights instead of making random ones.")
@often(HOW, "--device", default="auto", metavar="NAME", help="mps, cuda, virtual; cpu: what half precision does.")
@often(HOW, "--reproduce", type=File(), metavar="FILE", help="Write a small program that shows the first wrong one.")
@rare(HOW, "--made", is_flag=True, help="Ask about half precision with made weights too.")
@options.AUTOCAST_OPTION
@options.report_options
@options.EVERYTHING_OPTION
def verify(name: str, arguments: tuple[str, ...], **asked: Any) -> None:
    """Whether a device computes a step of WORKLOAD rightly, operator by operator, and where it first goes wrong.

    The same weights, inputs and random numbers run on the device and on the CPU; float64 is the judge of both. With
    half precision and no device: which modules overflow, and which have to stay in float32. A SCRIPT runs once, and
    each operator that it calls on the device is computed again on the CPU.

    \b
    mpsprobe verify bert-base
    mpsprobe verify model.py:make --phase inference --reproduce issue.py
    mpsprobe verify ./checkpoint --weights --dtype float16 --device cpu
    mpsprobe verify train.py -- --epochs 1
    """
    showing = Showing.of_flags(asked)
    wanted, made, file = asked.pop("device"), asked.pop("made"), asked.pop("reproduce")
    run_options = RunOptions(**asked)
    check_training(run_options, run_options.phase == "training")
    registry = get_registry()

    from mpsprobe.environment import check_version

    check_version("torch", "mpsprobe-coverage", "verify")
    if name.endswith(".py"):
        if file is not None or run_options != RunOptions(phase=run_options.phase):
            raise UsageError("a script runs as it is", "Leave out all flags but --device and those of the report.")
        check_program((name, *arguments), False)
        showing.choose("verification", name)
        _script((name, *arguments), registry, wanted, showing)
    if arguments:
        raise UsageError(f"'{name}' takes no arguments", "Those behind -- are for a script.")
    with make_progress() as progress:
        progress.start_loading(3)
        here = place(registry, wanted, run_options)
        showing.choose("precision" if here == "cpu" else "verification", name)
        if here == "cpu":
            showing.show(precision(registry.workload(name), run_options, made, progress))
            return
        showing.show(verified(registry, lambda: registry.workload(name), run_options, here, file, progress, note))


def _script(program: tuple[str, ...], registry: Registry, wanted: str, showing: Showing) -> NoReturn:
    """Run it, and end as it ended."""
    from mpsprobe_coverage.programs import parent

    here = place(registry, wanted, RunOptions())
    code, report = parent.verify(program, here)
    if report is None:
        note("no report: the program ended before Python did, or did not import torch")
    else:
        device = report.device if here == "virtual" else registry.device(here).describe()
        with nullcontext() if showing.output else redirect_stdout(sys.stderr):  # standard output is the program's
            showing.show(report.model_copy(update={"device": device}))
    parent.Ended(code, None).leave()


def place(registry: Registry, wanted: str, asked: RunOptions) -> str:
    """The device; ``cpu`` for the question about half precision."""
    from mpsprobe_coverage.verifying.device_to_compare import nowhere, there

    half = asked.dtype in HALVES or asked.autocast is not None
    devices = there(registry, wanted)
    if devices is None and half:
        return "cpu"
    if devices is None:
        raise nowhere(registry)
    if devices == "cpu" and not half:
        raise UsageError("the CPU is what devices are compared with", "Name another device, or --dtype float16.")
    return devices


def verified(
    registry: Registry,
    make: Callable[[], Workload],
    asked: RunOptions,
    name: str,
    file: str | None,
    progress: SilentProgress,
    say: Callable[[str], None],
) -> VerificationReport:
    from mpsprobe_coverage.verifying.device_to_compare import opened

    with opened(registry, name) as device:
        from mpsprobe_coverage.verifying.reproducing import program
        from mpsprobe_coverage.verifying.verification import Verification

        verification = Verification(make(), asked, device, progress, say)
        report = verification.report()
        if file is not None and report.wrong:
            first = verification.found()[0]
            text = program(first, verification.checking, "mps" if name == "virtual" else name)
            write_atomically(file, text)
            say(f"wrote {file}, which shows {first.report.operator}")
        elif file is not None:
            say(f"{file} was not written: no operator is wrong")
    return report


def precision(workload: Workload, asked: RunOptions, made: bool, progress: SilentProgress) -> PrecisionReport:
    from mpsprobe_coverage.verifying.half import precision

    if not (asked.weights or made or hasattr(workload, "path")):
        hint = "Load them (--weights), name a folder or your own function, or say --made."
        raise UsageError(MADE.format(name=workload.name), hint)
    return precision(workload, asked, progress)
