"""``mpsprobe profile --workload NAME``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from mpsprobe import exporting
from mpsprobe.cli.planning import AUTO, BOTH, PLAIN, Wishes, make_plan
from mpsprobe.declarations import DTYPES, PHASES
from mpsprobe.errors import MpsprobeError
from mpsprobe.options import Named, Names, Positive, Several
from mpsprobe.progress import make_progress
from mpsprobe.registry import get_registry

if TYPE_CHECKING:
    from mpsprobe.schemas.profile import ProfileReport

PHASE_NAMES = (*PHASES, BOTH)


@click.command()
@click.option("--workload", "workloads", multiple=True, metavar="NAME", help="What to run; may be given again.")
@click.option("--device", default=AUTO, show_default=True, metavar="NAME", help="Where; auto: the best.")
@click.option("--phase", type=Named("phase", PHASE_NAMES), default="inference", show_default=True, help="What to run.")
@click.option("--dtype", type=Named("dtype", DTYPES), default="float32", show_default=True, help="Of the parameters.")
@click.option("--autocast", type=Named("dtype", DTYPES[1:]), help="Run the forward pass under autocast.")
@click.option("--batch-size", "batch_sizes", type=Several(), metavar="N,…", help="Samples in a step; several: commas.")
@click.option("--seq-len", "seq_lens", type=Several(), metavar="N,…", help="Tokens (frames, …) in a sample; likewise.")
@click.option("--steps", type=Positive(), default=20, show_default=True, help="Timed steps.")
@click.option("--warmup", type=Positive(lowest=0), help="Steps before them [default: until they are stable].")
@click.option("--grad-accum", type=Positive(), default=1, show_default=True, help="Backward passes for each update.")
@click.option("--compile", "compiled", is_flag=True, help="Run the model through torch.compile.")
@click.option("--runner", default=PLAIN, show_default=True, metavar="NAME", help="Whose training loop: trainer, …")
@click.option("--probe", "probes", type=Names(), metavar="NAME,…", help="What to measure beside time; all; none.")
@click.option("--baseline", metavar="DEVICE", help="Measure on this device too, and say how much faster the first is.")
@click.option("--weights", is_flag=True, help="Load real weights instead of making random ones.")
@click.option("--trust-remote-code", is_flag=True, help="Let a checkpoint run Python code of its own.")
@click.option("--format", "format_name", metavar="NAME", help="An exporter [default: table, or by -o's extension].")
@click.option("-o", "--output", metavar="FILE", help="Write the report to FILE.")
def profile(format_name: str | None, output: str | None, **flags: Any) -> None:
    """How long a step of a workload takes on MPS, CUDA or the CPU, with honest statistics.

    The first call, with its compilations, stands apart; then the steps warm up until they are stable; then they are
    timed, synchronised before and after. After Ctrl-C the report has what was measured.

    \b
    mpsprobe profile --workload distilbert
    mpsprobe profile --workload resnet50 --phase training --batch-size 8,16,32
    mpsprobe profile --workload vgg16 --device mps --baseline cpu
    """
    wishes = Wishes(**flags)
    if not wishes.workloads:
        raise click.MissingParameter(param_type="option", param_hint="'--workload'")
    registry = get_registry()
    name = exporting.choose(registry, format_name, output)
    plan = make_plan(registry, wishes)

    from mpsprobe.engine.profiling import profile as measure

    registry.announce("mpsprobe_before_run", workload=",".join(wishes.workloads), phase=wishes.phase)
    report = measure(plan, make_progress())
    data = report.model_dump(mode="json")
    registry.announce("mpsprobe_after_run", workload=",".join(wishes.workloads), phase=wishes.phase, report=data)
    exporting.write(registry, name, report, output)
    sys.exit(exit_code(report))


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
