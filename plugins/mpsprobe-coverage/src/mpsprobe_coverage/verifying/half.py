"""What half precision does to a model, on the CPU: what overflows or is lost, and what has to stay in float32."""

from __future__ import annotations

import copy
import math
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

from mpsprobe.environment import collect_environment
from mpsprobe.errors import MpsprobeError, WorkloadError
from mpsprobe.protocols import Progress, RunOptions, TorchRun, Workload
from mpsprobe.schemas import ModuleRange, PrecisionReport
from mpsprobe.stepping import forward, loss_of, workload_info
from mpsprobe.suggestions import in_short, printable
from mpsprobe_coverage.verifying.comparing import distance
from mpsprobe_coverage.verifying.drawing import Drawing, settled
from mpsprobe_coverage.verifying.runs import built

HOLDS = {torch.float16: 0.02, torch.bfloat16: 0.1}
"""The error of the output up to which a result holds: what PyTorch's tests allow of one sum (``tolerances.toml``)."""
MOST_KEPT = 64
MOST_SCALES = 40
FIRST_SCALE, GROWTH = 2.0**16, 0.5
"""``torch.amp.GradScaler``: where it begins, and what it multiplies by after an overflow."""
SNIPPET = """def to(dtype):
    one = lambda value: value.to(dtype) if torch.is_tensor(value) and value.is_floating_point() else value
    return lambda values: torch.utils._pytree.tree_map(one, values)
wide, narrow = to(torch.float32), to(torch.{dtype})
keep = {keep}  # True: what it puts out is beyond the range of {dtype}
kept = [model.get_submodule(name) for name in keep]
weights = [{{name: value.clone() for name, value in module.state_dict().items()}} for module in kept]
model.to(torch.{dtype})
inside = [id(one) for module in kept for one in module.modules()]
for module in model.modules():
    if id(module) not in inside and not list(module.children()):
        module.register_forward_pre_hook(lambda m, args, kwargs: narrow((args, kwargs)), with_kwargs=True)
for module, stays, own in zip(kept, keep.values(), weights):
    module.float().load_state_dict(own)
    module.register_forward_pre_hook(lambda m, args, kwargs: wide((args, kwargs)), with_kwargs=True)
    if not stays:
        module.register_forward_hook(lambda m, args, output: narrow(output))
"""


def precision(workload: Workload, options: RunOptions, progress: Progress) -> PrecisionReport:
    """The forward pass of ``workload`` in float32 and in the dtype that ``options`` name, module by module."""
    dtype = getattr(torch, options.autocast or options.dtype)
    run = built(workload, replace(options, dtype="float32", autocast=None))
    notes: dict[str, None] = {}
    info = workload_info(workload.name, run, options, None)
    with _its_errors(run), settled(run.model, lambda text: notes.setdefault(text)), torch.no_grad():
        progress.start(3, "in float32")
        usual, exact = _ran(run, options, torch.float32, inputs=options.autocast is None)
        progress.advance(f"in {options.autocast or options.dtype}")
        narrow = run if options.autocast else _narrowed(run, dtype, {})
        outputs, result = _ran(narrow, options, dtype)
        error = _error(result, exact)
        rows = _rows(narrow, dtype, usual, outputs)
        begins, allowed = _begins(usual, outputs, {}), HOLDS[dtype]
        keep: dict[str, bool] = {}
        with_keep: float | None = None
        if not _within(error, allowed) and not options.autocast:
            progress.advance("which modules have to stay in float32")
            keep, with_keep = _kept(run, options, dtype, rows, usual, exact)
    scaled = options.autocast == "float16" and options.phase == "training"
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
        snippet=_snippet(dtype, keep) if keep else None,
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


class _Outputs:
    """What modules put out: the first tensor of each one's first call, and what leaves got."""

    def __init__(self) -> None:
        self.order: list[str] = []
        self.first: dict[str, torch.Tensor] = {}
        self.inputs: dict[str, tuple[Any, Any]] = {}


def _ran(
    run: TorchRun, options: RunOptions, dtype: torch.dtype, *, inputs: bool = False
) -> tuple[_Outputs, list[torch.Tensor]]:
    """What modules put out, with ``inputs`` also what leaves got, and the result."""
    seen, names = _Outputs(), {id(module): name for name, module in run.model.named_modules()}
    copies: dict[tuple[int, int], tuple[torch.Tensor, torch.Tensor]] = {}  # by identity and version, both alive

    def kept(one: Any) -> Any:
        """A copy; of a tensor that passes through several modules the same one."""
        if not isinstance(one, torch.Tensor):
            return one
        return copies.setdefault((id(one), one._version), (one, one.detach().clone()))[1]

    def ended(module: torch.nn.Module, args: Any, kwargs: Any, result: Any) -> None:
        name = names.get(id(module))
        leaf = next((one for one in _floats(result)), None)
        if name and leaf is not None and name not in seen.first:
            seen.order.append(name)
            seen.first[name] = kept(leaf)
            if inputs and not any(module.children()):
                seen.inputs[name] = tree_map(kept, (args, kwargs))

    autocast = torch.autocast("cpu", dtype) if options.autocast and dtype is not torch.float32 else nullcontext()
    with ExitStack() as exits, autocast, Drawing(torch.float32):
        for module in run.model.modules():  # of a hook on all modules with keywords PyTorch keeps an entry for ever
            exits.enter_context(module.register_forward_hook(ended, with_kwargs=True))
        output = forward(run, replace(options, autocast=None), "cpu", run.args, run.kwargs)
    return seen, _floats(output)


def _narrowed(run: TorchRun, dtype: torch.dtype, keep: Mapping[str, bool]) -> TorchRun:
    """A copy of ``run`` in ``dtype``, but for the modules in ``keep``, which compute in float32.

    Where ``keep`` says so of a module, what it puts out stays in float32 until another module takes it.
    """
    model = _copied(run.model, dtype)
    kept = [model.get_submodule(name) for name in keep]
    inside = {id(one) for module in kept for one in module.modules()}
    for (name, stays), module in zip(keep.items(), kept, strict=True):
        module.float()
        module.load_state_dict(run.model.get_submodule(name).state_dict())
        module.register_forward_pre_hook(lambda m, args, kwargs: _as((args, kwargs), torch.float32), with_kwargs=True)
        if not stays:
            module.register_forward_hook(lambda m, args, output: _as(output, dtype))
    for module in model.modules() if any(keep.values()) else ():
        if id(module) not in inside and not any(module.children()):
            module.register_forward_pre_hook(lambda m, args, kwargs: _as((args, kwargs), dtype), with_kwargs=True)
    return replace(run, model=model, args=_as(tuple(run.args), dtype), kwargs=_as(dict(run.kwargs), dtype))


def _copied(model: torch.nn.Module, dtype: torch.dtype) -> torch.nn.Module:
    """A copy in ``dtype``, whose weights are never copied as they are."""
    memo: dict[int, Any] = {}
    for one in model.parameters():
        if one.is_floating_point():
            memo[id(one)] = torch.nn.Parameter(one.detach().to(dtype, copy=True), one.requires_grad)
    return copy.deepcopy(model, memo).to(dtype)


def _as(values: Any, dtype: torch.dtype) -> Any:
    def one(leaf: Any) -> Any:
        return leaf.to(dtype) if isinstance(leaf, torch.Tensor) and leaf.is_floating_point() else leaf

    return tree_map(one, values)


def _kept(
    run: TorchRun, options: RunOptions, dtype: torch.dtype, rows: Sequence[ModuleRange], usual: _Outputs, exact: Any
) -> tuple[dict[str, bool], float | None]:
    """The fewest modules, as far as was tried, with which in float32 the result holds, and its error then.

    Where something is not finite, the first module that puts it out is next; else the one that loses most by itself.
    """
    beyond = {one.name: one.of_range is not None and one.of_range >= 1.0 for one in rows}
    leaves = {name for name, one in run.model.named_modules() if name and not any(one.children())}
    losing = [one.name for one in rows if one.name in leaves]

    def tried(keep: Mapping[str, bool]) -> tuple[str | None, float | None]:
        try:
            outputs, result = _ran(_narrowed(run, dtype, keep), options, dtype)
        except RuntimeError:  # dtypes meet in the model's own code
            return None, None
        return _begins(usual, outputs, keep), _error(result, exact)

    keep: dict[str, bool] = {}
    begins, error = tried(keep)
    while not _within(error, HOLDS[dtype]):
        following = begins or next((one for one in losing if one not in keep), None)
        if following is None or len(keep) >= MOST_KEPT:
            return {}, None
        keep[following] = beyond.get(following, False)
        begins, error = tried(keep)
    for name in [*keep] if len(keep) > 1 else []:
        fewer = {one: stays for one, stays in keep.items() if one != name}
        without = tried(fewer)[1]
        if _within(without, HOLDS[dtype]):
            keep, error = fewer, without
    return keep, error


def _begins(usual: _Outputs, outputs: _Outputs, keep: Mapping[str, bool]) -> str | None:
    """The first module whose output is not finite, though it is in float32."""
    for name in outputs.order:
        if name in usual.first and name not in keep and not _finite(outputs.first[name]) and _finite(usual.first[name]):
            return name
    return None


def _rows(run: TorchRun, dtype: torch.dtype, usual: _Outputs, narrow: _Outputs) -> list[ModuleRange]:
    top, types = torch.finfo(dtype).max, {name: type(one).__name__ for name, one in run.model.named_modules()}
    rows, figures = [], dict[tuple[int, int], dict[str, Any]]()
    for name, exact in usual.first.items():
        got = narrow.first.get(name)
        if got is None or got.shape != exact.shape:
            continue
        key = id(got), id(exact)  # modules that put out what a part of theirs did
        if key not in figures:
            figures[key] = _figures(got, exact, top)
        own = _own_error(run, name, dtype, usual)
        rows.append(ModuleRange(name=name, type=types[name], own_error=own, **figures[key]))
    return sorted(rows, key=_suffers, reverse=True)


def _figures(got: torch.Tensor, exact: torch.Tensor, top: float) -> dict[str, Any]:
    largest = max(map(abs, map(float, torch.aminmax(exact)))) if exact.numel() else 0.0
    found = distance(got, exact)
    zeros = got == 0
    lost = int((zeros & (exact != 0)).sum()) if zeros.any() else 0
    return {
        "largest": _figure(largest),
        "of_range": _figure(largest / top),
        "overflowed": 0 if _finite(got) else int((~torch.isfinite(got) & torch.isfinite(exact)).sum()),
        "underflowed": lost / max(1, got.numel()),
        "error": None if found is None or found.nonfinite else _figure(found.relative),
    }


def _suffers(one: ModuleRange) -> tuple[float, float]:
    """Those beyond the range of the dtype most, then those that lose most by themselves."""
    beyond = math.inf if one.of_range is None else one.of_range
    return beyond if beyond >= 1.0 else 0.0, math.inf if one.own_error is None else one.own_error


def _own_error(run: TorchRun, name: str, dtype: torch.dtype, usual: _Outputs) -> float | None:
    """The error of one leaf alone, in ``dtype`` with the inputs that it has in float32; zero where it has parts."""
    if name not in usual.inputs:
        return 0.0
    args, kwargs = _as(usual.inputs[name], dtype)
    try:
        with Drawing(torch.float32):
            leaves = _floats(run.model.get_submodule(name)(*args, **kwargs))
    except RuntimeError:  # inputs of other dtypes than its weights, or no kernel of the CPU
        return 0.0
    return _error(leaves[:1], [usual.first[name]])


def _error(got: Sequence[torch.Tensor], exact: Sequence[torch.Tensor]) -> float | None:
    """The largest of all tensors; ``None`` where one has numbers that are not finite."""
    largest = 0.0
    for one, right in zip(got, exact, strict=False):
        found = distance(one, right)
        if found is not None:
            if found.nonfinite or not math.isfinite(found.relative):
                return None
            largest = max(largest, found.relative)
    return largest


def _within(error: float | None, allowed: float) -> bool:
    return error is not None and error <= allowed


def _figure(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _finite(tensor: torch.Tensor) -> bool:
    return bool(torch.isfinite(tensor).all())


def _floats(values: Any) -> list[torch.Tensor]:
    values = dict(values) if isinstance(values, Mapping) else values
    return [one for one in tree_leaves(values) if isinstance(one, torch.Tensor) and one.is_floating_point()]


def _snippet(dtype: torch.dtype, keep: Mapping[str, bool]) -> str:
    return SNIPPET.format(dtype=str(dtype).removeprefix("torch."), keep=dict(keep))


def _loss_scale(run: TorchRun, options: RunOptions) -> float | None:
    """The largest scale, as a ``GradScaler`` comes to it, with which no gradient overflows; ``None``: there is none."""
    scale = FIRST_SCALE
    with settled(run.model, lambda text: None):
        for _ in range(MOST_SCALES):
            run.model.zero_grad()
            with torch.autocast("cpu", torch.float16), Drawing(torch.float32):
                loss = loss_of(run, forward(run, replace(options, autocast=None), "cpu", run.args, run.kwargs))
            (loss * scale).backward()
            gradients = [one.grad for one in run.model.parameters() if one.grad is not None]
            if all(map(_finite, gradients)):
                run.model.zero_grad()
                return scale
            scale *= GROWTH
    return None
