"""What the core's commands do, as functions of ``mpsprobe``: ``profile``, ``compare`` and ``load_report``."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack

from mpsprobe.errors import MpsprobeError, ReportError, UsageError, WorkloadError
from mpsprobe.suggestions import in_short, printable

if TYPE_CHECKING:
    from mpsprobe.protocols import RunOptions, Workload
    from mpsprobe.schemas.comparison import ComparisonReport
    from mpsprobe.schemas.profile import ProfileReport
    from mpsprobe.schemas.report import KnownReport, Report

WHAT = "Compare two profiles, two coverage reports or two matrices (coverage --torch all)."


class ProfileOptions(TypedDict, total=False):
    """The flags of ``mpsprobe profile``, whose help says more of each.

    Attributes:
        device, baseline: where it runs, and what that is compared with (``mps``, ``cuda``, ``cpu``).
        phase: ``inference``, ``training`` or ``both``.
        dtype, autocast: ``float32``, ``float16``, ``bfloat16``: of the parameters, and of autocast.
        batch_size, seq_len: what a workload with a name is run with: one number or several.
        size: ``real``, or ``small`` for a model with few layers of the same structure.
        steps, warmup, processes: how many timed steps, steps before them, and fresh processes.
        grad_accum: backward passes for each update.
        lora, lora_rank: train LoRA adapters of that rank instead of the whole model.
        compile: run the model through ``torch.compile``.
        runner: whose training loop.
        probe: what is measured in addition to time.
        clock: ``host`` or ``device``.
        preset: a well-known comparison, which names the workloads itself.
        no_fallbacks: do not predict which operators fall back on MPS.
        weights, trust_remote_code: load real weights; let a checkpoint run Python code of its own.
    """

    device: str
    baseline: str | None
    phase: str | None
    dtype: str
    autocast: str | None
    batch_size: int | list[int] | None
    seq_len: int | list[int] | None
    size: str
    steps: int
    warmup: int | None
    processes: int
    grad_accum: int
    lora: bool
    lora_rank: int
    compile: bool
    runner: str
    probe: str | list[str] | None
    clock: Literal["host", "device"]
    preset: str | None
    no_fallbacks: bool
    weights: bool
    trust_remote_code: bool


def profile(model: object = None, inputs: object = None, **options: Unpack[ProfileOptions]) -> ProfileReport:
    """How long a step of ``model`` takes on this machine, as ``mpsprobe profile`` measures it; durations are in ns.

    Args:
        model: a ``torch.nn.Module``, a function or a pipeline, of which a copy is run; or the name of a workload.
        inputs: what it is called with: a tensor, a tuple of positional or a dict of keyword arguments.
        options: called as the flags are.

    Raises:
        UsageError: options that do not go together, or a model that cannot be run so.
        MpsprobeError: nothing could be measured. A step that raises is no error here: its cell has ``failure``.
    """
    from mpsprobe.cli.profile import measured, request_of
    from mpsprobe.cli.profile import profile as command
    from mpsprobe.options import converted
    from mpsprobe.plugins.registry import get_registry
    from mpsprobe.progress import SilentProgress

    registry, flags = get_registry(), converted(command, options)
    if model is None or isinstance(model, str):
        return measured(registry, request_of(() if model is None else (model,), flags), SilentProgress())
    workload = _Copied(registry.workload_of(model, inputs))
    if flags.get("processes", 1) > 1:
        raise UsageError("--processes needs a workload with a name", "A model of this process is not in others.")
    return measured(registry, request_of((workload.name,), flags), SilentProgress(), workload)


class _Copied:
    """A workload of a program's own model, of which a copy is run: devices move it, and training changes it."""

    def __init__(self, workload: Workload) -> None:
        self.name, self.framework, self.describe = workload.name, workload.framework, workload.describe
        self._workload = workload

    def build(self, options: RunOptions) -> Any:
        try:
            copied = copy.deepcopy(self._workload)
        except MpsprobeError:
            raise
        except Exception as error:  # whatever a model is made of
            why = f"'{printable(self.name)}' cannot be copied: {in_short(error)}"
            raise WorkloadError(why, "Hand over a function without inputs, which makes the model.") from error
        return copied.build(options)


def load_report(path: str | Path) -> KnownReport:
    """The report in the file ``path``, which ``report.save`` or ``-o`` wrote; needs no torch.

    Raises:
        ReportError: it cannot be read, is none, or is one that a newer mpsprobe or a plugin wrote.
    """
    from mpsprobe.schemas.report import read_report

    return _known(read_report(path), str(path))


def _known(report: Report, source: str) -> KnownReport:
    from mpsprobe.schemas.report import UnknownReport

    if isinstance(report, UnknownReport):
        what = f"is a report of the kind '{printable(report.kind)}' and version {report.schema_version}"
        hint = "Upgrade mpsprobe, or the plugin that wrote it."
        raise ReportError(f"{printable(source)} {what}, which this mpsprobe does not know", hint)
    return report


def compare(old: Report | str | Path, new: Report | str | Path, *, threshold: float = 0.02) -> ComparisonReport:
    """What became slower, larger or worse from one report to another, as ``mpsprobe diff`` says it.

    Args:
        old, new: two reports of one kind, or their files.
        threshold: a smaller difference is none: a share of 1.

    Raises:
        ReportError: they are of kinds that differ or that cannot be compared, or have nothing in common; a newer
            mpsprobe wrote one.
    """
    from mpsprobe.engine.comparing import compare_profiles
    from mpsprobe.engine.comparing_coverage import compare_coverage, compare_matrices

    (old, before), (new, after) = (
        (load_report(report), str(report)) if isinstance(report, (str, Path)) else (_known(report, word), word)
        for report, word in ((old, "old"), (new, "new"))
    )
    if old.kind != new.kind:
        kinds = f"{printable(before)} is a '{old.kind}' and {printable(after)} is a '{new.kind}'"
        raise ReportError(f"the reports are of different kinds: {kinds}", WHAT)
    comparisons: dict[str, Callable[..., ComparisonReport]] = {
        "profile": partial(compare_profiles, threshold=threshold),
        "coverage": compare_coverage,
        "coverage-matrix": compare_matrices,
    }
    if old.kind not in comparisons:
        raise ReportError(f"reports of the kind '{old.kind}' cannot be compared", WHAT)
    return comparisons[old.kind](old, new, (before, after))
