"""What ``mpsprobe coverage`` and ``mpsprobe verify`` do, as functions of ``mpsprobe``; ``check`` is of the first."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal, TypedDict, Unpack, overload

from mpsprobe.answers.lookup import find, keep
from mpsprobe.answers.question import Question
from mpsprobe.errors import CheckFailed, UsageError
from mpsprobe.options import converted
from mpsprobe.plugins.registry import get_registry
from mpsprobe.progress import SilentProgress
from mpsprobe.protocols import RunOptions, Workload
from mpsprobe.schemas import CoverageReport, MatrixReport
from mpsprobe_coverage.commands.coverage import coverage as command
from mpsprobe_coverage.commands.failing import broken
from mpsprobe_coverage.commands.judge import Judging, judged
from mpsprobe_coverage.commands.verify import place, precision, verified
from mpsprobe_coverage.commands.verify import verify as verify_command

if TYPE_CHECKING:
    from mpsprobe.schemas import PrecisionReport, VerificationReport

FAIL_ON = ("missing", "fallback", "unsupported")
"""The verdicts that ``check`` lets nothing pass with."""
Releases = str | Sequence[str]
_judging = threading.Lock()


class StepOptions(TypedDict, total=False):
    """The flags that all commands have which run a step of a workload.

    Attributes:
        phase: ``inference``, ``training``, and for ``coverage`` also ``generate``.
        dtype, autocast: ``float32``, ``float16``, ``bfloat16``: of a workload's parameters, and of autocast. A model
            that is handed over has its own dtype.
        batch_size, seq_len: what a workload with a name is run with.
        size: ``real``, or ``small`` for a model with few layers of the same structure.
        weights: compute with the real values of the parameters, not made ones; without it ``coverage`` needs no values.
        trust_remote_code: let a checkpoint run Python code of its own.
    """

    phase: str
    dtype: str
    autocast: str | None
    batch_size: int | None
    seq_len: int | None
    size: str
    weights: bool
    trust_remote_code: bool


class CoverageOptions(StepOptions, total=False):
    """The flags of ``mpsprobe coverage``, whose help says more of each.

    Attributes:
        backend: whose kernels; others than those of MPS come with plugins.
        grad_accum, clip_norm: of a training step: backward passes for each update; the gradients' largest norm.
        lora, lora_rank: train LoRA adapters of that rank instead of the whole model.
        new_tokens, decoding, cache, word_timestamps: what ``generate`` is asked for.
        graph: of TensorFlow: ``plain``, ``optimized`` by grappler, or ``eager``.
        macos: the version to judge for.
        chip: the Mac's, such as ``m2`` or ``m2-pro-16gb``: known wrong results of other chips are left out.
        memory: of that Mac, such as ``16GB``: whether the workload fits.
        allocations: keep every allocation in the report, for the exporter ``memory-viz``.
        explain: exporters show for each operator what its verdict rests on.
        atlas: take the answer that mpsprobe-atlas knows of the workload of a name, also of other versions.
        no_cache: work the answer out anew, and do not keep it; only answers about a name are kept at all.
    """

    backend: str
    grad_accum: int
    clip_norm: float
    lora: bool
    lora_rank: int
    new_tokens: int
    decoding: str
    cache: str
    word_timestamps: bool
    graph: str
    macos: str | None
    chip: str | None
    memory: str | int | None
    allocations: bool
    explain: bool
    atlas: bool
    no_cache: bool


class VerifyOptions(StepOptions, total=False):
    """The flags of ``mpsprobe verify``, whose help says more of each.

    Attributes:
        device: ``mps``, ``cuda``, ``virtual``; ``cpu`` for half precision.
        made: ask about half precision with made weights too.
        reproduce: the file for a small program that shows the first wrong operator.
    """

    device: str
    made: bool
    reproduce: str | None


@overload
def coverage(  # type: ignore[overload-overlap]  # "all" is a str, and means something else
    model: object, inputs: object = None, *, torch: Literal["all"], **options: Unpack[CoverageOptions]
) -> MatrixReport: ...


@overload
def coverage(
    model: object, inputs: object = None, *, torch: str = "installed", **options: Unpack[CoverageOptions]
) -> CoverageReport: ...


@overload
def coverage(
    model: object, inputs: object = None, *, torch: Sequence[str], **options: Unpack[CoverageOptions]
) -> CoverageReport | MatrixReport: ...


def coverage(
    model: object, inputs: object = None, *, torch: Releases = "installed", **options: Unpack[CoverageOptions]
) -> CoverageReport | MatrixReport:
    """Which operators of ``model`` have no MPS kernel, where they are called, and which release fixes them.

    The model is run once, on a virtual device, without data and without a Mac; afterwards it is as it was before.

    Args:
        model: a ``torch.nn.Module``; a function, whose modules are found in its closure; a pipeline of transformers;
            the name of a workload; a function without inputs that returns a model and its inputs.
        inputs: what it is called with: a tensor, a tuple of positional or a dict of keyword arguments, of any shapes.
        torch: the release to judge: ``2.13.0``, ``2.13``, ``installed``, ``latest``. Several, in a list, or ``all`` of
            them give a ``MatrixReport``.
        options: called as the flags are.

    Raises:
        UsageError: options that do not go together, or a model that cannot be run so.
        MpsprobeError: the workload cannot be built, or a table cannot be read. A model that raises while it runs is no
            error here: the report has the operators before it, and ``failure``.
    """
    if isinstance(torch, str) and "," in torch:  # a type checker takes it for one
        raise UsageError(f"several torch releases are a list, not '{torch:.40}'", 'For example ["2.6", "2.13"].')
    flags = converted(command, {**options, "torch": ",".join(in_quotes(torch))})
    cached = not flags.pop("no_cache") if "no_cache" in flags else None
    atlas = flags.pop("atlas", None)
    question = None
    if inputs is None and isinstance(model, str):
        question = Question.of_command(command, model, flags, cached=cached)
        answer = None if question.is_file_of_code else find(question, atlas)
        known = answer.report() if answer is not None else None
        if isinstance(known, (CoverageReport, MatrixReport)):
            return known
    workload = get_registry().workload_of(model, inputs)
    own = {"dtype": workload.dtype} if hasattr(workload, "dtype") else {}
    judging = Judging.of_flags({**own, **flags}, workload.framework)
    with _put_back(workload):
        report = judged(workload, judging, SilentProgress())
    assert isinstance(report, (CoverageReport, MatrixReport))
    if question is not None and not question.is_file_of_code:
        keep(question, report)
    return report


def in_quotes(torch: Releases) -> list[str]:
    """The releases that a program names; not as numbers: 2.10 would be 2.1."""
    releases = list(torch) if isinstance(torch, Sequence) and not isinstance(torch, str) else [torch]
    for name in releases:
        if not isinstance(name, str):
            raise UsageError(f"a torch release is written in quotes, not as {name!r:.40}", 'For example torch="2.10".')
    return releases


def check(
    model: object,
    inputs: object = None,
    *,
    torch: Releases = "installed",
    allow: Sequence[str] = (),
    fail_on: Sequence[str] = FAIL_ON,
    **options: Unpack[CoverageOptions],
) -> CoverageReport | MatrixReport:
    """``coverage``, where nothing may have a verdict of ``fail_on``; returns the report.

    Args:
        model, inputs, torch, options: as ``coverage`` takes them.
        allow: operators that may: ``aten::linalg_qr.out``, ``linalg_qr``, ``fft_*``.
        fail_on: verdicts, and ``advisory`` for results that are known to be wrong; ``memory`` for what raises.

    Raises:
        CheckFailed: an operator has; the message names each, with its line.
        MpsprobeError: as ``coverage``; the model raised.
    """
    wanted = converted(command, {"fail_on": fail_on, "allow": allow or None})
    report = coverage(model, inputs, torch=torch, **options)
    refuse(report, wanted["fail_on"], wanted.get("allow", ()))
    return report


def refuse(report: CoverageReport | MatrixReport, fail_on: Sequence[str], allow: Sequence[str]) -> None:
    """Raise ``CheckFailed`` if ``report`` has what ``fail_on`` names and ``allow`` does not."""
    lines = broken(report, fail_on, allow)
    if lines:
        count = f"{len(lines)} finding{'' if len(lines) == 1 else 's'}"
        raise CheckFailed("\n  ".join([f"{report.workload.name}: {count} for MPS", *lines]), report)


@contextmanager
def _put_back(workload: Workload) -> Iterator[None]:
    """The program's own model is afterwards as it was; scans put back its random numbers themselves."""
    model = getattr(workload, "model", None)
    if model is None:
        yield
        return
    from mpsprobe_coverage.devices.virtual.restoring import as_before

    if not _judging.acquire(blocking=False):
        raise UsageError("another thread of this process has a model on the virtual device", "Wait for it.")
    try:
        with as_before(model.modules()):
            yield
    finally:
        _judging.release()


def verify(
    model: object, inputs: object = None, **options: Unpack[VerifyOptions]
) -> VerificationReport | PrecisionReport:
    """Whether a device computes a step of ``model`` rightly; for half precision on the CPU a ``PrecisionReport``.

    A copy of the model is run: the program's own stays as it is.

    Args:
        model: a ``torch.nn.Module``, a function or a pipeline, or the name of a workload.
        inputs: what it is called with: a tensor, a tuple of positional or a dict of keyword arguments.
        options: called as the flags are.

    Raises:
        UsageError: there is no such device, or options do not go together.
        WorkloadError: the model cannot be copied, or has no values. A device that raises is no error here: the report
            has what was found before, and ``failure``.
    """
    values = converted(verify_command, options)
    wanted, made, file = (
        values.pop(name, usual) for name, usual in (("device", "auto"), ("made", True), ("reproduce", None))
    )
    registry = get_registry()

    def make() -> Workload:
        return registry.workload_of(model, inputs)

    own = {"dtype": dtype} if (dtype := getattr(make(), "dtype", None)) and "dtype" not in values else {}
    run_options = RunOptions(**{"phase": "training", **own, **values})
    here = place(registry, wanted, run_options)
    if here == "cpu":
        return precision(make(), run_options, made or not isinstance(model, str), SilentProgress())
    return verified(registry, make, run_options, here, file, SilentProgress(), lambda text: None)
