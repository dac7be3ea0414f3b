"""``mpsprobe profile WORKLOAD``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from mpsprobe import exporting
from mpsprobe.cli.planning import BOTH, make_plan
from mpsprobe.declarations import DTYPES, PHASES, SIZES
from mpsprobe.engine.request import ProfileRequest
from mpsprobe.errors import RunFailed
from mpsprobe.options import Named, Names, Positive, Several
from mpsprobe.plugins.registry import AUTO, PLAIN, get_registry
from mpsprobe.progress import make_progress
from mpsprobe.protocols import RunOptions, Workload

if TYPE_CHECKING:
    from mpsprobe.plugins.registry import Registry
    from mpsprobe.progress import SilentProgress
    from mpsprobe.schemas.profile import ProfileReport

OF_ALL_RUNS = ("dtype", "size", "autocast", "grad_accum", "lora", "lora_rank", "weights", "trust_remote_code")
CLOCKS = ("host", "device")


@click.command()
@click.argument("names", nargs=-1, metavar="[WORKLOAD]...")
@click.option("--workload", "workloads", multiple=True, metavar="NAME", help="What else to run; may be given again.")
@click.option("--preset", metavar="NAME|FILE", help="A well-known comparison (pytorch-mps-2022), or FILE.toml.")
@click.option("--device", default=AUTO, show_default=True, metavar="NAME", help="Where; auto: the best.")
@click.option(
    "--phase", type=Named("phase", (*PHASES, BOTH)), help="What to run [default: inference, or the preset's]."
)
@click.option("--dtype", type=Named("dtype", DTYPES), default="float32", show_default=True, help="Of the parameters.")
@click.option("--autocast", type=Named("dtype", DTYPES[1:]), help="Run the forward pass under autocast.")
@click.option("--batch-size", "batch_sizes", type=Several(), metavar="N,…", help="Samples in a step; several: commas.")
@click.option("--seq-len", "seq_lens", type=Several(), metavar="N,…", help="Tokens (frames, …) in a sample; likewise.")
@click.option(
    "--size", type=Named("size", SIZES), default="real", show_default=True, help="Of the model; small: few layers."
)
@click.option("--steps", type=Positive(), default=20, show_default=True, help="Timed steps.")
@click.option("--warmup", type=Positive(lowest=0), help="Steps before them [default: until they are stable].")
@click.option("--grad-accum", type=Positive(), default=1, show_default=True, help="Backward passes for each update.")
@click.option("--lora", is_flag=True, help="Train LoRA adapters of all linear layers instead of the whole model.")
@click.option("--lora-rank", type=Positive(), default=16, show_default=True, help="Of these adapters.")
@click.option("--compile", "compiled", is_flag=True, help="Run the model through torch.compile.")
@click.option("--runner", default=PLAIN, show_default=True, metavar="NAME", help="Whose training loop: trainer, …")
@click.option("--probe", "probes", type=Names(), metavar="NAME,…", help="What to measure besides time; all; none.")
@click.option("--clock", type=Named("clock", CLOCKS), default=CLOCKS[0], show_default=True, help="What takes the time.")
@click.option("--processes", type=Positive(), default=1, show_default=True, help="Fresh processes, one by one.")
@click.option("--baseline", metavar="DEVICE", help="Measure on this device too, and say how much faster the first is.")
@click.option("--no-fallbacks", is_flag=True, help="Do not predict which operators fall back on MPS.")
@click.option("--weights", is_flag=True, help="Load real weights instead of making random ones.")
@click.option("--trust-remote-code", is_flag=True, help="Let a checkpoint run Python code of its own.")
@click.option("--export", "exports", multiple=True, metavar="NAME[=PATH]", help="Also write this format; repeatable.")
@click.option("--format", "format_name", metavar="NAME", help="An exporter [default: table, or by -o's extension].")
@click.option("-o", "--output", metavar="FILE", help="Write the report to FILE.")
@click.pass_context
def profile(
    ctx: click.Context,
    /,
    names: tuple[str, ...],
    workloads: tuple[str, ...],
    exports: tuple[str, ...],
    format_name: str | None,
    output: str | None,
    **flags: Any,
) -> None:
    """How long a step of a workload takes on MPS, CUDA or the CPU, with honest statistics.

    The first call, with its compilations, stands apart; then the steps warm up until they are stable; then they are
    timed, synchronised before and after. After Ctrl-C the report has what was measured.

    \b
    mpsprobe profile distilbert
    mpsprobe profile resnet50 --phase training --batch-size 8,16,32
    mpsprobe profile vgg16 --device mps --baseline cpu
    mpsprobe profile bert-base --probe all --export html --export tensorboard=runs
    """
    if names and ctx.get_parameter_source("workloads") is not ParameterSource.COMMANDLINE:
        workloads = ()  # of a variable or a file: what is typed goes before
    request = request_of((*names, *workloads), flags)
    registry = get_registry()
    name = exporting.choose(registry, format_name, output, "profile")
    stem = Path(request.preset or [*request.workloads, "profile"][0]).name
    targets = [exporting.further(registry, text, stem, "profile") for text in exports]
    with make_progress() as progress:
        progress.start_loading(2)
        report = measured(registry, request, progress)
    try:
        for exporter, path in targets:
            click.echo(f"{exporter}: {exporting.write(registry, exporter, report, path)}", err=True)
    finally:  # what was measured is not lost with an export that fails
        exporting.write(registry, name, report, output)
    failures = [cell.failure for cell in report.cells if cell.failure is not None]
    if failures and len(failures) == len(report.cells):
        raise RunFailed(failures[0], shown=name == "table" and output in (None, "-"))


def request_of(workloads: tuple[str, ...], flags: dict[str, Any]) -> ProfileRequest:
    """The request for ``workloads`` with ``flags``, by the parameters' names; what is not in it is as usual."""
    options = RunOptions(**{name: flags.pop(name) for name in OF_ALL_RUNS if name in flags})
    return ProfileRequest(workloads, options=options, fallbacks=not flags.pop("no_fallbacks", False), **flags)


def measured(
    registry: Registry, request: ProfileRequest, progress: SilentProgress, given: Workload | None = None
) -> ProfileReport:
    """What was measured of ``request``, in this process or in those that it asks for, with predicted fallbacks."""
    from mpsprobe.cli import processes
    from mpsprobe.engine.predicting import predict
    from mpsprobe.engine.profiling import profile as measure

    plan = make_plan(registry, request, given)  # also before other processes measure: wrong use is an error once, here
    named = ",".join(dict.fromkeys(run.workload.name for run in plan.runs))
    phase = ",".join(dict.fromkeys(run.options.phase for run in plan.runs))
    registry.announce("mpsprobe_before_run", workload=named, phase=phase)
    if request.processes > 1:
        progress.stop()  # each process has its own
        report = processes.measure(registry, request)
    else:
        report = measure(plan, progress)
    if request.fallbacks and report.complete:
        report = predict(report, plan.runs, registry.scanner_for, progress)
    if registry.listens("mpsprobe_after_run"):  # a trace has a million events: no copy of them for nobody
        registry.announce("mpsprobe_after_run", workload=named, phase=phase, report=report.model_dump(mode="json"))
    return report
