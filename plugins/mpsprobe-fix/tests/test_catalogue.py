"""Each rewrite gives the numbers and gradients of what it takes the place of, for drawn inputs, by native operators."""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from torch.utils._python_dispatch import TorchDispatchMode

from mpsprobe_coverage.knowledge.kernels.mps import load_table
from mpsprobe_fix.catalogue import REWRITES, Rewrite

DRAWS = 50
Drawn = tuple[tuple[Any, ...], dict[str, Any]]


def _size(most: int = 7) -> int:
    return random.randint(1, most)


def _floats(*shape: int) -> torch.Tensor:
    return torch.randn(*shape)


def _grid_sample() -> Drawn:
    mode, padding = random.choice(["bilinear", "nearest", "bicubic"]), random.choice(["zeros", "border", "reflection"])
    batch = _size(3)
    grid = torch.rand(batch, _size(), _size(), 2) * 3 - 1.5
    return (_floats(batch, _size(3), _size(), _size()), grid), {
        "mode": mode, "padding_mode": padding, "align_corners": random.choice([True, False]),
    }  # fmt: skip


def _interpolate() -> Drawn:
    # Not one pixel wide: there torch 2.13.0 repeats the first row on the CPU, in float32 and float64.
    size = random.choice([_size() + 1, (_size(12), _size(12) + 1)])
    image = _floats(_size(3), _size(3), _size(12), _size(12))
    return (image,), {"size": size, "mode": random.choice(["bilinear", "bicubic"]), "antialias": True}


def _ctc() -> Drawn:
    batch, frames, classes = _size(3), random.randint(6, 12), random.randint(2, 5)
    sizes = [random.randint(0, 3) for _ in range(batch)]
    targets = torch.randint(1, classes, (batch, 3))
    lengths = [random.randint(6, frames) for _ in range(batch)]
    if random.random() < 0.5:
        targets = torch.cat([row[:size] for row, size in zip(targets, sizes, strict=True)])
    return (_floats(frames, batch, classes), targets, lengths, sizes), {
        "reduction": random.choice(["mean", "sum", "none"]), "zero_infinity": random.choice([True, False]),
    }  # fmt: skip


def _index_copy() -> Drawn:
    shape = [random.randint(0, 5) + 1 for _ in range(_size(3))]
    dim = random.randrange(-len(shape), len(shape))
    index = torch.randperm(shape[dim])[: random.randint(1, shape[dim])]
    source = list(shape)
    source[dim] = index.numel()
    return (_floats(*shape), dim, index, _floats(*source)), {}


def _running() -> Drawn:
    shape = [random.randint(0, 9) for _ in range(random.randint(0, 3))]
    values = torch.randint(0, 5, shape).float()
    if values.numel() > 3 and random.random() < 0.3:
        values.view(-1)[random.randrange(values.numel())] = float("nan")
    return (values, random.randrange(-max(1, len(shape)), max(1, len(shape)))), {}


def _fold() -> Drawn:
    kernel, dilation, padding, stride = ((_size(3), _size(2 + 1)) for _ in range(4))
    padding = (padding[0] - 1, padding[1] - 1)
    output = tuple(dilation[side] * (kernel[side] - 1) + 1 + random.randint(0, 5) for side in (0, 1))
    counts = [
        (output[side] + 2 * padding[side] - dilation[side] * (kernel[side] - 1) - 1) // stride[side] + 1
        for side in (0, 1)
    ]
    shape = [_size(3) * kernel[0] * kernel[1], counts[0] * counts[1]]
    return (_floats(*([_size(3)] if random.random() < 0.7 else []), *shape), output, kernel), {
        "dilation": dilation, "padding": padding, "stride": stride,
    }  # fmt: skip


def _bag() -> Drawn:
    rows, mode = _size(9), random.choice(["sum", "mean"])
    weight = _floats(rows, _size(5))
    if random.random() < 0.4:
        return (torch.randint(0, rows, (_size(), _size())), weight), {"mode": mode}
    count = random.randint(1, 9)
    starts = sorted([0, *(random.randint(0, count) for _ in range(random.randint(0, 4)))])
    options: dict[str, Any] = {"mode": mode, "offsets": torch.tensor(starts)}
    if mode == "sum" and random.random() < 0.5:
        options["per_sample_weights"] = torch.rand(count)
    if random.random() < 0.3:
        options["offsets"] = torch.tensor([*starts, count])
        options["include_last_offset"] = True
    return (torch.randint(0, rows, (count,)), weight), options


def _pool() -> Drawn:
    sizes = random.choice([_size(), (_size(), None), (_size(), _size())])
    return (_floats(*([_size(3)] if random.random() < 0.7 else []), _size(3), _size(11), _size(11)), sizes), {}


def _grouped() -> Drawn:
    inner, groups = 8 * _size(3), _size(4)
    ends = torch.tensor([random.randint(0, 5) for _ in range(groups)]).cumsum(0).to(torch.int32)
    rows = (_floats(int(ends[-1]), inner).bfloat16(), _floats(groups, inner, 8 * _size(2)).bfloat16())
    return rows, {"offs": ends}


def _attention() -> Drawn:
    lead = [_size(3), _size(3)] if random.random() < 0.7 else [_size(3)]
    rows, columns, width = _size(), _size(), _size()
    options: dict[str, Any] = {"is_causal": random.random() < 0.3, "scale": random.choice([None, 0.7])}
    heads = lead
    if len(lead) == 2 and random.random() < 0.3:
        options["enable_gqa"] = True
        heads, lead = lead, [lead[0], 2 * lead[1]]
    if not options["is_causal"] and random.random() < 0.6:
        mask = torch.rand(random.choice([1, rows]), columns) < 0.7
        options["attn_mask"] = mask if random.random() < 0.5 else torch.zeros(mask.shape).masked_fill(~mask, -9.0)
    return (_floats(*lead, rows, width), _floats(*heads, columns, width), _floats(*heads, columns, _size())), options


def _norm() -> Drawn:
    return (_floats(_size(9), _size(9)), random.choice([1, 2, 3.5, float("inf")])), {}


def _clipped(function: Callable[..., Any]) -> Callable[..., Any]:
    """Clipping, as a function of the gradients of two parameters."""

    def clipped(one: torch.Tensor, other: torch.Tensor, most: float) -> tuple[torch.Tensor, ...]:
        parameters = [torch.zeros_like(one), torch.zeros_like(other)]
        parameters[0].grad, parameters[1].grad = one.detach().clone(), other.detach().clone()
        total = function(parameters, most)
        return torch.stack([total]), parameters[0].grad, parameters[1].grad

    return clipped


def _gradients() -> Drawn:
    return (_floats(_size(9), _size()), _floats(_size(30)), random.choice([0.1, 1.0, 100.0])), {}


DRAWN: dict[str, tuple[Callable[..., Any], Callable[[], Drawn], str]] = {
    "grid_sample": (F.grid_sample, _grid_sample, "2.6.0"),
    "interpolate_antialias": (F.interpolate, _interpolate, "2.6.0"),
    "ctc_loss": (F.ctc_loss, _ctc, "2.6.0"),
    "index_copy": (torch.index_copy, _index_copy, "2.6.0"),
    "cummax": (torch.cummax, _running, "2.6.0"),
    "cummin": (torch.cummin, _running, "2.6.0"),
    "fold": (F.fold, _fold, "2.6.0"),
    "embedding_bag": (F.embedding_bag, _bag, "2.6.0"),
    "adaptive_avg_pool2d": (F.adaptive_avg_pool2d, _pool, "2.6.0"),
    "grouped_mm": (F.grouped_mm, _grouped, "2.8.0"),
    "scaled_dot_product_attention": (F.scaled_dot_product_attention, _attention, "2.6.0"),
    "vector_norm": (torch.linalg.vector_norm, _norm, "2.6.0"),
    "clip_grad_norm_": (_clipped(torch.nn.utils.clip_grad_norm_), _gradients, "2.6.0"),
}
"""What each takes the place of, how its inputs are drawn, and the oldest release on which every operator is native."""


class _Called(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.operators: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.operators.add(str(func).removesuffix(".default").replace(".", "::", 1))
        return func(*args, **(kwargs or {}))


def _results(function: Callable[..., Any], drawn: Drawn) -> list[torch.Tensor]:
    """Results, and the gradients of their weighted sum, of everything that has one."""
    args, options = drawn
    given = [
        one.detach().clone().requires_grad_() if isinstance(one, torch.Tensor) and one.is_floating_point() else one
        for one in args
    ]
    if function.__name__ == "ctc_loss":  # torch's gradient is that for what comes out of log_softmax
        made = function(F.log_softmax(given[0], 2), *given[1:], **options)
    else:
        made = function(*given, **options)
    assert function.__name__ not in {"cummax", "cummin"} or made.values is made[0]
    made = list(made) if isinstance(made, tuple) else [made]
    weights = torch.Generator().manual_seed(3)
    floats = [one for one in made if one.is_floating_point()]
    loss = sum((one.nan_to_num(0, 0, 0) * torch.rand(one.shape, generator=weights)).sum() for one in floats)
    leaves = [one for one in given if isinstance(one, torch.Tensor) and one.requires_grad]
    if isinstance(loss, torch.Tensor) and loss.requires_grad:
        found = torch.autograd.grad(loss, leaves, allow_unused=True)
        made += [torch.zeros_like(leaf) if one is None else one for one, leaf in zip(found, leaves, strict=True)]
    return made


def _rewritten(rewrite: Rewrite, module: str = "") -> Callable[..., Any]:
    """The rewrite, or its class of a module, as it is put into a program, taking its way for MPS on the CPU."""
    namespace: dict[str, Any] = {"torch": torch}
    code = rewrite.module(module) if module else rewrite.code
    code = code.replace('.type != "mps"', '.type == "mps"')
    code = code.replace("2**28", "20").replace("2**30", "7")  # so that there are parts
    assert code != rewrite.code
    exec(code, namespace)
    made: Callable[..., Any] = namespace[f"{module}OnMPS" if module else rewrite.name]
    return _clipped(made) if rewrite.name == "clip_grad_norm_" else made


@pytest.mark.parametrize("rewrite", REWRITES, ids=lambda one: one.name)
def test_a_rewrite_has_the_numbers_and_gradients_and_native_operators(rewrite: Rewrite) -> None:
    function, draw, release = DRAWN[rewrite.name]
    ours = _rewritten(rewrite)
    seen = _Called()
    for _ in range(DRAWS):
        drawn = draw()
        wanted = _results(function, drawn)
        with seen:
            made = _results(ours, drawn)
        near = 2e-2 if rewrite.name == "grouped_mm" else 1e-4
        torch.testing.assert_close(
            made,
            wanted,
            equal_nan=True,
            rtol=near,
            atol=near,
            msg=lambda text: f"{text}\n{drawn}",  # noqa: B023
        )
    for judged in (release, "2.13.0", "2.15.0"):
        table = load_table(judged)
        assert not {one: table.verdict(one) for one in seen.operators if table.verdict(one) in {"missing", "fallback"}}
        assert not seen.operators & rewrite.operators or "split(" in rewrite.code or "range(0" in rewrite.code


def _made(name: str, drawn: Drawn) -> tuple[Drawn, Drawn]:
    """What a module is made of and what it is called with, from what is drawn for its function."""
    args, options = drawn
    if name == "CTCLoss":
        return ((), options), ((F.log_softmax(args[0], 2), *args[1:]), {})
    if name == "EmbeddingBag":
        given = {key: options.pop(key) for key in ("offsets", "per_sample_weights") if key in options}
        return (tuple(args[1].shape), {**options, "_weight": args[1]}), (args[:1], given)
    return (args[1:], options), (args[:1], {})


@pytest.mark.parametrize("name", [name for one in REWRITES for name in one.modules])
def test_a_module_that_is_rewritten_gives_the_same(name: str) -> None:
    rewrite = next(one for one in REWRITES if name in one.modules)
    kinds = _rewritten(rewrite, name), getattr(torch.nn, name)
    for _ in range(DRAWS):
        made, called = _made(name, DRAWN[rewrite.name][1]())
        results = [kind(*made[0], **made[1])(*called[0], **called[1]) for kind in kinds]
        torch.testing.assert_close(*results, rtol=1e-4, atol=1e-4)


def test_the_modules_are_those_of_torch_that_call_a_function_of_the_catalogue() -> None:
    kinds = [one for one in vars(torch.nn).values() if inspect.isclass(one) and issubclass(one, torch.nn.Module)]
    for rewrite in REWRITES:
        names = [one.removeprefix("torch.nn.functional.") for one in rewrite.functions]
        calls = {one.__name__ for one in kinds for name in names if f"F.{name}(" in inspect.getsource(one.forward)}
        assert rewrite.only_with or calls == {*rewrite.modules}, rewrite.name
