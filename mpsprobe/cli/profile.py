"""``mpsprobe profile --workload NAME``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from mpsprobe.declarations import DTYPES, PHASES
from mpsprobe.errors import MissingPackage, MpsprobeError, UnknownName, UsageError
from mpsprobe.options import Named, Positive, Several
from mpsprobe.output import choose_format, deliver
from mpsprobe.progress import make_progress
from mpsprobe.protocols import RunOptions
from mpsprobe.registry import Registry, get_registry

if TYPE_CHECKING:
    from mpsprobe.protocols import Device
    from mpsprobe.schemas.profile import ProfileReport

AUTO = "auto"


@click.command()
@click.option("--workload", required=True, metavar="NAME", help="What to run; names: 'mpsprobe workloads list'.")
@click.option("--device", "device_name", default=AUTO, show_default=True, metavar="NAME", help="Where; auto: the best.")
@click.option("--phase", type=Named("phase", PHASES), default="inference", show_default=True, help="What to run.")
@click.option("--dtype", type=Named("dtype", DTYPES), default="float32", show_default=True, help="Of the parameters.")
@click.option("--autocast", type=Named("dtype", DTYPES[1:]), help="Run the forward pass under autocast.")
@click.option("--batch-size", type=Several(), metavar="N,…", help="Samples in a step; several with commas.")
@click.option("--seq-len", type=Several(), metavar="N,…", help="Tokens (frames, …) in a sample; several with commas.")
@click.option("--steps", type=Positive(), default=20, show_default=True, help="Timed steps.")
@click.option("--warmup", type=Positive(lowest=0), help="Steps before them [default: until they are stable].")
@click.option("--grad-accum", type=Positive(), default=1, show_default=True, help="Backward passes for each update.")
@click.option("--compile", "compiled", is_flag=True, help="Run the model through torch.compile.")
@click.option("--baseline", metavar="DEVICE", help="Measure on this device too, and say how much faster the first is.")
@click.option("--weights", is_flag=True, help="Load real weights instead of making random ones.")
@click.option("--trust-remote-code", is_flag=True, help="Let a checkpoint run Python code of its own.")
@click.option("--format", "format_name", metavar="NAME", help="An exporter [default: table, or by -o's extension].")
@click.option("-o", "--output", metavar="FILE", help="Write the report to FILE.")
def profile(
    workload: str,
    device_name: str,
    phase: str,
    dtype: str,
    autocast: str | None,
    batch_size: tuple[int, ...] | None,
    seq_len: tuple[int, ...] | None,
    steps: int,
    warmup: int | None,
    grad_accum: int,
    compiled: bool,
    baseline: str | None,
    weights: bool,
    trust_remote_code: bool,
    format_name: str | None,
    output: str | None,
) -> None:
    """How long a step of a workload takes on MPS, CUDA or the CPU, with honest statistics.

    The first call, with its compilations, stands apart; then the steps warm up until they are stable; then they are
    timed, synchronised before and after. After Ctrl-C the report has what was measured.

    \b
    mpsprobe profile --workload distilbert
    mpsprobe profile --workload resnet50 --phase training --batch-size 8,16,32
    mpsprobe profile --workload vgg16 --device mps --baseline cpu
    """
    if phase == "inference" and grad_accum != 1:
        raise UsageError("--grad-accum makes sense with --phase training only")
    registry = get_registry()
    name, to_file = choose_format(registry, format_name, output)
    devices = [choose_device(registry, device_name)]
    if baseline is not None:
        devices.append(choose_device(registry, baseline))
        if devices[0].name == devices[1].name:
            raise UsageError(f"--baseline {baseline} is the device that is measured anyway", "Name another one.")

    from mpsprobe.engine.profiling import Plan
    from mpsprobe.engine.profiling import profile as measure
    from mpsprobe.engine.session import Settings

    plan = Plan(
        workload=registry.workload(workload),
        options=RunOptions(
            phase=phase,
            dtype=dtype,
            autocast=autocast,
            grad_accum=grad_accum,
            weights=weights,
            trust_remote_code=trust_remote_code,
        ),
        devices=devices,
        batch_sizes=batch_size or (None,),
        seq_lens=seq_len or (None,),
        settings=Settings(steps=steps, warmup=warmup),
        compiled=compiled,
        baseline=baseline,
    )
    registry.announce("mpsprobe_before_run", workload=workload, phase=phase)
    report = measure(plan, make_progress())
    registry.announce("mpsprobe_after_run", workload=workload, phase=phase, report=report.model_dump(mode="json"))
    deliver(registry.render(name, report, terminal=not to_file), output)
    sys.exit(exit_code(report))


def choose_device(registry: Registry, name: str) -> Device:
    """The device called ``name``; for ``auto`` the first one that is there.

    Raises:
        UsageError: it is not there; says why, and which are.
        MissingPackage: no plugin with devices is installed.
    """
    declared = registry.devices()
    if not declared:
        raise MissingPackage("a device to run on", "mpsprobe-devices")
    if name != AUTO and name not in declared:
        raise UnknownName("device", name, [*declared, AUTO], f"There are: {', '.join(declared)}.")
    reasons = {}
    for candidate in declared if name == AUTO else [name]:
        device = registry.device(candidate)
        reason = device.unavailable()
        if reason is None:
            return device
        reasons[candidate] = reason
    usable = [other for other in declared if other not in reasons and registry.device(other).unavailable() is None]
    hint = f"There is: {', '.join(usable)}." if usable else None
    raise UsageError("; ".join(f"{one} cannot be used here: {reason}" for one, reason in reasons.items()), hint)


def exit_code(report: ProfileReport) -> int:
    """0, also for an interrupted run: its report says so; an error when a configuration failed."""
    failures = [cell for cell in report.cells if cell.failure is not None]
    if failures and len(failures) == len(report.cells):
        failure = failures[0].failure
        assert failure is not None
        raise MpsprobeError(
            f"nothing was measured to its end: {failure.error} in {failure.phase}: {failure.message}",
            "The report has what was measured before.",
        )
    return 0
