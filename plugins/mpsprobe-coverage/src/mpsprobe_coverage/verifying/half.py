"""What half precision does to a model, on the CPU: what overflows or is lost, and what has to stay in float32."""

from __future__ import annotations

import copy
import inspect
import math
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_map

from mpsprobe.environment import collect_environment
from mpsprobe.errors import MpsprobeError, WorkloadError
from mpsprobe.protocols import Progress, RunOptions, TorchRun, Workload
from mpsprobe.schemas import ModuleRange, PrecisionReport
from mpsprobe.stepping import TorchStep, workload_info
from mpsprobe.suggestions import in_short, printable
from mpsprobe_coverage.verifying.comparing import all_finite, distance, finite
from mpsprobe_coverage.verifying.drawing import Drawing, settled
from mpsprobe_coverage.verifying.runs import ROOT, Following, Seen, built, floats, placed

HOLDS = {torch.float16: 0.02, torch.bfloat16: 0.1}
"""The error of the output up to which a result holds: what PyTorch's tests allow of one sum (``tolerances.toml``)."""
MOST_KEPT = 64
MOST_SCALES = 40


def precision(workload: Workload, options: RunOptions, progress: Progress) -> PrecisionReport:
    """The forward pass of ``workload`` in float32 and in the dtype that ``options`` name, module by module."""
    dtype, autocast = getattr(torch, options.autocast or options.dtype), options.autocast
    run = built(workload, replace(options, dtype="float32", autocast=None))
    notes: dict[str, None] = {}
    info, forward = workload_info(workload.name, run, options, None), replace(options, phase="inference")
    with _its_errors(run), settled(run.model, lambda text: notes.setdefault(text)), torch.no_grad():
        progress.start(3, "in float32")
        narrow = run if autocast else _narrowed(run, dtype, {})
        alone: dict[str, float | None] = {}
        step = Following(run, replace(forward, autocast=None), "cpu")
        with nullcontext() if autocast else _each_alone(run.model, narrow.model, dtype, alone):
            usual = step.followed(Drawing(torch.float32))
        progress.advance(f"in {autocast or options.dtype}")
        step = Following(narrow, forward, "cpu", usual.kept.copy(), compare=_figures)
        seen = step.followed(Drawing(torch.float32))
        error, allowed = _error(seen.result, usual.result), HOLDS[dtype]
        rows = _rows(run, seen, alone)
        begins = _begins(seen, {})
        keep: dict[str, bool] = {}
        with_keep: float | None = None
        if not _within(error, allowed) and not autocast:
            progress.advance("which modules have to stay in float32")
            keep, with_keep = _kept(run, forward, dtype, rows, usual, (begins, error))
    scaled = autocast == "float16" and options.phase == "training"
    with _its_errors(run):
        scale = _loss_scale(run, options) if scaled else None
    progress.stop()
    return PrecisionReport(
        workload=info,
        environment=collect_environment(),
        largest_of_dtype=torch.finfo(dtype).max,
        modules=rows,
        begins=begins,
        error=error,
        allowed=allowed,
        holds=_within(error, allowed),
        keep=list(keep),
        error_with_keep=with_keep,
        snippet=snippet(dtype, keep) if keep else None,
        loss_scale=scale,
        notes=list(notes),
    )


@contextmanager
def _its_errors(run: TorchRun) -> Iterator[None]:
    """What a model raises, or its copy, is a ``WorkloadError`` with the line."""
    try:
        yield
    except MpsprobeError:
        raise
    except Exception as error:
        why = f"'{run.architecture or type(run.model).__name__}' does not run on the CPU: {in_short(error)}"
        last = traceback.extract_tb(error.__traceback__)[-1]
        raise WorkloadError(
            why, f"At {Path(last.filename).name}:{last.lineno}: {printable(last.line or '')}"
        ) from error


def _narrowed(run: TorchRun, dtype: torch.dtype, keep: dict[str, bool]) -> TorchRun:
    """A copy of ``run`` in ``dtype``, but for the modules in ``keep``; weights in float32 are those of ``run``."""
    memo: dict[int, Any] = {
        id(parameter): torch.nn.Parameter(parameter.detach(), parameter.requires_grad)
        for parameter in run.model.parameters()
    }
    model = copy.deepcopy(run.model, memo)  # parameters are other ones, their values the same memory
    keep_in_float32(model, dtype, keep)
    return replace(run, model=model, args=in_dtype(tuple(run.args), dtype), kwargs=in_dtype(dict(run.kwargs), dtype))


@contextmanager
def _each_alone(
    model: torch.nn.Module, narrow: torch.nn.Module, dtype: torch.dtype, errors: dict[str, float | None]
) -> Iterator[None]:
    """Where ``model`` calls a module without parts, call that of ``narrow`` with the same, rounded to ``dtype``."""

    def ended(name: str, _module: Any, args: Any, kwargs: Any, result: Any) -> None:
        outputs = floats(result)
        if name in errors or not outputs:
            return
        errors[name] = 0.0
        if args and outputs[0] is args[0]:  # it hands on what it got, as dropout does in inference
            return
        with _disable_current_modes():
            args, kwargs = in_dtype((args, kwargs), dtype)
            # Inputs of other dtypes than its weights, or no kernel of the CPU
            with suppress(RuntimeError), Drawing(torch.float32):
                errors[name] = _error(floats(narrow.get_submodule(name)(*args, **kwargs))[:1], outputs)

    with ExitStack() as hooks:
        # Of a hook on all modules with keywords PyTorch keeps an entry for ever
        for name, module in model.named_modules():
            if not any(module.children()):
                hooks.enter_context(module.register_forward_hook(partial(ended, name), with_kwargs=True))
        yield


def _kept(
    run: TorchRun,
    options: RunOptions,
    dtype: torch.dtype,
    rows: Sequence[ModuleRange],
    usual: Seen,
    found: tuple[str | None, float | None],
) -> tuple[dict[str, bool], float | None]:
    """The fewest modules, as far as was tried, with which in float32 the result holds, and its error then.

    Where something is not finite, the first module that puts it out is next; else the one that loses most by itself.

    Args:
        found: where NaN or infinity begins without any, and the error.
    """
    beyond = {row.name: row.of_range is not None and row.of_range >= 1.0 for row in rows}
    leaves = {name for name, module in run.model.named_modules() if name and not any(module.children())}
    losing = [row.name for row in rows if row.name in leaves]

    def tried(keep: dict[str, bool]) -> tuple[str | None, float | None]:
        step = Following(_narrowed(run, dtype, keep), options, "cpu", usual.kept.copy(), compare=_overflowed)
        try:
            seen = step.followed(Drawing(torch.float32))
        except RuntimeError:  # dtypes meet in the model's own code
            return None, None
        return _begins(seen, keep), _error(seen.result, usual.result)

    keep: dict[str, bool] = {}
    begins, error = found
    while not _within(error, HOLDS[dtype]):
        following = begins or next((leaf for leaf in losing if leaf not in keep), None)
        if following is None or len(keep) >= MOST_KEPT:
            return {}, None
        keep[following] = beyond.get(following, False)
        begins, error = tried(keep)
    for name in [*keep] if len(keep) > 1 else []:
        fewer = {kept: stays for kept, stays in keep.items() if kept != name}
        without = tried(fewer)[1]
        if _within(without, HOLDS[dtype]):
            keep, error = fewer, without
    return keep, error


def _begins(seen: Seen, keep: Mapping[str, bool]) -> str | None:
    """The first module whose output is not finite, though it is in float32."""
    for name in seen.order:
        if name != ROOT and name not in keep:
            compared = seen.compared.get(("output", name, 0))
            if compared is not None and compared["overflowed"]:
                return name
    return None


def _rows(run: TorchRun, seen: Seen, alone: Mapping[str, float | None]) -> list[ModuleRange]:
    types = {name: type(module).__name__ for name, module in run.model.named_modules()}
    figures = {name: compared for (_, name, number), compared in seen.compared.items() if name != ROOT and number == 0}
    rows = [
        ModuleRange(name=name, type=types[name], own_error=alone.get(name, 0.0), **figure)
        for name, figure in figures.items()
    ]
    return sorted(rows, key=_suffers, reverse=True)


def _figures(got: torch.Tensor, exact: torch.Tensor) -> dict[str, Any] | None:
    difference = distance(got, exact)
    if difference is None:
        return None
    largest = max(map(abs, map(float, torch.aminmax(exact))))
    some_zero = not float(got.abs().amin()) > 0.0  # or NaN: quicker than to count
    return {
        "largest": finite(largest),
        "of_range": finite(largest / torch.finfo(got.dtype).max),
        "overflowed": difference.nonfinite,
        "underflowed": int(((got == 0) & (exact != 0)).sum()) / got.numel() if some_zero else 0.0,
        "error": None if difference.nonfinite else finite(difference.relative),
    }


def _overflowed(got: torch.Tensor, exact: torch.Tensor) -> dict[str, Any]:
    return {"overflowed": not all_finite(got) and all_finite(exact)}


def _suffers(module_range: ModuleRange) -> tuple[float, float]:
    """Those beyond the range of the dtype most, then those that lose most by themselves."""
    beyond = math.inf if module_range.of_range is None else module_range.of_range
    return beyond if beyond >= 1.0 else 0.0, math.inf if module_range.own_error is None else module_range.own_error


def _error(got: Sequence[torch.Tensor], exact: Sequence[torch.Tensor]) -> float | None:
    """The largest of all tensors; ``None`` where one has numbers that are not finite."""
    largest = 0.0
    for one, right in zip(got, exact, strict=False):
        difference = distance(one, right)
        if difference is not None:
            if difference.nonfinite or not math.isfinite(difference.relative):
                return None
            largest = max(largest, difference.relative)
    return largest


def _within(error: float | None, allowed: float) -> bool:
    return error is not None and error <= allowed


def _loss_scale(run: TorchRun, options: RunOptions) -> float | None:
    """The scale at which a ``GradScaler`` makes its first update; ``None``: it has not come to one."""
    run = placed(run, "cpu")
    with settled(run.model, lambda text: None):
        step = TorchStep(run, options, "cpu")
        for _ in range(MOST_SCALES):
            scale = step.scaler.get_scale()
            with Drawing(torch.float32):
                step.take()
            if step.scaler.get_scale() >= scale:
                return float(scale)
    return None


# -- the code that a report shows is the code that was tried


def in_dtype(values: Any, dtype: torch.dtype) -> Any:
    return tree_map(
        lambda value: value.to(dtype) if torch.is_tensor(value) and value.is_floating_point() else value, values
    )


def keep_in_float32(model: torch.nn.Module, dtype: torch.dtype, keep: dict[str, bool]) -> None:
    """Put a float32 model into dtype, but for the modules in keep; True: what one puts out is beyond that range."""
    kept = {name: model.get_submodule(name) for name in keep}
    inside = {id(part) for module in kept.values() for part in module.modules()}
    wide = {id(tensor) for module in kept.values() for tensor in (*module.parameters(), *module.buffers())}
    for parameter in (*model.parameters(), *model.buffers()):
        if parameter.is_floating_point() and id(parameter) not in wide:
            parameter.data = parameter.data.to(dtype)
    for name, module in kept.items():
        module.register_forward_pre_hook(lambda _, *given: in_dtype(given, torch.float32), with_kwargs=True)
        if not keep[name]:
            module.register_forward_hook(lambda _, args, output: in_dtype(output, dtype))
    for module in model.modules() if any(keep.values()) else ():
        if id(module) not in inside and not any(module.children()):
            module.register_forward_pre_hook(lambda _, *given: in_dtype(given, dtype), with_kwargs=True)


def snippet(dtype: torch.dtype, keep: dict[str, bool]) -> str:
    """That code, for the model called ``model``."""
    imports = "from typing import Any\nimport torch\nfrom torch.utils._pytree import tree_map\n"
    sources = inspect.getsource(in_dtype), inspect.getsource(keep_in_float32)
    return "\n\n".join([imports, *sources, f"keep_in_float32(model, {dtype}, {keep})\n"])
