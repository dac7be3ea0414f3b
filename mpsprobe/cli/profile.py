"""``mpsprobe profile WORKLOAD``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from mpsprobe import exporting, options
from mpsprobe.cli.planning import BOTH, make_plan
from mpsprobe.commands import Command
from mpsprobe.declarations import PHASES
from mpsprobe.engine.request import ProfileRequest
from mpsprobe.errors import RunFailed
from mpsprobe.options import ANSWER, TRAINING, WHAT, Named, Names, Positive, Several, often, rare
from mpsprobe.plugins.registry import AUTO, PLAIN, Registry, get_registry
from mpsprobe.progress import SilentProgress, make_progress
from mpsprobe.protocols import RunOptions, Workload
from mpsprobe.streams import note

if TYPE_CHECKING:
    from mpsprobe.schemas.profile import ProfileReport

OF_ALL_RUNS = ("dtype", "size", "autocast", "grad_accum", "lora", "lora_rank", "weights", "trust_remote_code")
CLOCKS = ("host", "device")
PHASE = Named("phase", (*PHASES, BOTH))
HOW = "How it is measured"


@click.command(cls=Command)
@options.workloads_argument
@rare(WHAT, "--workload", "workloads", multiple=True, metavar="NAME", help="What else to run; may be given again.")
@often(WHAT, "--preset", metavar="NAME|FILE", help="A well-known comparison (pytorch-mps-2022)\f, or FILE.toml.")
@often(
    WHAT,
    "--phase",
    type=PHASE,
    metavar="PHASE",
    help="inference, training, both\f [default: inference, or the preset's].",
)
@options.DTYPE_OPTION
@often(WHAT, "--batch-size", "batch_sizes", type=Several(), help="Samples in a step; several: commas.")
@often(WHAT, "--seq-len", "seq_lens", type=Several(), help="Tokens (frames, …) in a sample; likewise.")
@options.SIZE_OPTION
@rare(WHAT, "--weights", is_flag=True, help="Load real weights instead of making random ones.")
@options.TRUST_OPTION
@often(HOW, "--device", default=AUTO, metavar="NAME", help="Where; auto: the best.")
@often(HOW, "--baseline", metavar="DEVICE", help="Measure on this device too\f, and say how much faster the first is.")
@often(HOW, "--steps", type=Positive(), default=20, help="Timed steps.")
@rare(HOW, "--warmup", type=Positive(lowest=0), help="Steps before them [default: until they are stable].")
@often(HOW, "--processes", type=Positive(), default=1, help="Fresh processes, one by one.")
@often(HOW, "--probe", "probes", type=Names(), help="What to measure besides time; all; none.")
@rare(HOW, "--clock", type=Named("clock", CLOCKS), default=CLOCKS[0], help="What takes the time.")
@rare(HOW, "--compile", "compiled", is_flag=True, help="Run the model through torch.compile.")
@rare(TRAINING, "--runner", default=PLAIN, metavar="NAME", help="Whose training loop: trainer, …")
@options.training_options
@rare(ANSWER, "--no-fallbacks", is_flag=True, help="Do not predict which operators fall back on MPS.")
@options.report_options
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
            note(f"{exporter}: {exporting.write(registry, exporter, report, path)}")
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
