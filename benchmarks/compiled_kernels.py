"""Whether the Metal kernels of ``torch.compile`` run here and agree, and whether a mistake in one is found.

    python benchmarks/compiled_kernels.py functions [--draw 150] [--seed 0] [--dtypes float32 float16 bfloat16]
    python benchmarks/compiled_kernels.py mistakes [--draw 40] [--seed 0]

``functions`` compiles entries of the OpInfo database that are drawn with a seed, ten in a graph, forward and backward,
on the native device. Every kernel is compared with its operators (``verifying/kernels.py``); results and gradients are
compared with those of the CPU. What cannot be compiled is tried alone, and printed with its reason.
``mistakes`` changes one place of a generated source: an index, a bound, a barrier, the type of an accumulator, a
constant, an operation. A change after which every result has the same bits is no mistake, and another is drawn.
"""

from __future__ import annotations

import argparse
import logging
import re
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from random import Random
from typing import Any, NamedTuple

import torch
from torch.utils._pytree import tree_leaves, tree_map

from mpsprobe.suggestions import first_line, type_name
from mpsprobe_coverage.devices.native.device import NativeDevice
from mpsprobe_coverage.devices.native.inductor import Generated
from mpsprobe_coverage.knowledge.judging.chain import Chain
from mpsprobe_coverage.knowledge.kernels.mps import load_table
from mpsprobe_coverage.knowledge.kernels.releases import installed_release
from mpsprobe_coverage.verifying.comparing import compared, tolerance_of
from mpsprobe_coverage.verifying.copying import WIDER, copied, widened
from mpsprobe_coverage.verifying.kernels import Kernels

F = torch.nn.functional
TOGETHER = 10


class Function(NamedTuple):
    name: str
    call: Callable[..., Any]
    inputs: Any  # of the CPU: positional arguments and keywords

    def __call__(self, given: Any) -> Any:
        args, kwargs = given
        return self.call(*args, **kwargs)


class Outcome(NamedTuple):
    kernels: int
    compared: int
    faults: list[str]
    differ: list[str]  # names of functions


def main() -> int:
    arguments = _arguments()
    warnings.simplefilter("ignore")
    logging.disable()
    kernels = _Mistaken()
    device = NativeDevice(Chain(load_table(installed_release())), lines=False, keep_going=False, shader=kernels)
    with device:
        return (_functions if arguments.what == "functions" else _mistakes)(arguments, device, kernels)


class _Mistaken(Kernels):
    """Kernels of a source that ``change`` has changed."""

    change: Callable[[str], str] = staticmethod(str)

    def __call__(self, generated: Generated, source: str) -> Any:
        return super().__call__(generated, self.change(source))


def _functions(arguments: argparse.Namespace, device: NativeDevice, kernels: Kernels) -> int:
    from mpsprobe_tables.audit.entries import entries

    chance, known = Random(arguments.seed), entries()
    names = chance.sample(sorted(known), len(known))
    total: Counter[str] = Counter()
    for dtype in (getattr(torch, name) for name in arguments.dtypes):
        taken = [one for name in names if (one := _drawn(name, known[name], dtype)) is not None][: arguments.draw]
        for start in range(0, len(taken), TOGETHER):
            for group, result in _in_parts(taken[start : start + TOGETHER], kernels):
                if isinstance(result, str):
                    total[f"{dtype} refused"] += 1
                    _print(f"{dtype} {group[0].name}: {result}")
                    continue
                total[f"{dtype} functions"] += len(group)
                total[f"{dtype} kernels"] += result.kernels
                total[f"{dtype} compared"] += result.compared
                total[f"{dtype} wrong"] += len(result.faults) + len(result.differ)
                for said in (*result.faults, *result.differ):
                    _print(f"{dtype} {', '.join(one.name for one in group)}: {said}")
        _print(", ".join(f"{name} {number}" for name, number in total.items()))
    return any(number for name, number in total.items() if name.endswith("wrong"))


def _drawn(name: str, entry: Any, dtype: torch.dtype) -> Function | None:
    """The first sample of an OpInfo entry with a tensor that is not empty."""
    if dtype not in entry.dtypes:
        return None
    torch.manual_seed(0)
    for sample in entry.sample_inputs("cpu", dtype):
        inputs = ((sample.input, *sample.args), sample.kwargs)
        if any(isinstance(one, torch.Tensor) and one.numel() for one in tree_leaves(inputs)):
            return Function(name, entry.get_op(), inputs)
    return None


def _in_parts(group: Sequence[Function], kernels: Kernels) -> Iterator[tuple[Sequence[Function], Outcome | str]]:
    """What became of ``group``, taken apart where it cannot be compiled together."""
    try:
        yield group, _compiled(group, kernels)
    except Exception as error:  # noqa: BLE001 - whatever an entry or the compiler raises is its result
        if len(group) == 1:
            inner: BaseException = error
            while (deeper := getattr(inner, "inner_exception", None) or inner.__cause__) is not None:
                inner = deeper
            yield group, f"{type_name(inner)}: {first_line(inner)[:200]}"
            return
        middle = len(group) // 2
        yield from _in_parts(group[:middle], kernels)
        yield from _in_parts(group[middle:], kernels)


def _compiled(group: Sequence[Function], kernels: Kernels) -> Outcome:
    kernels.launched.clear()
    torch._dynamo.reset()
    inputs = [one.inputs for one in group]
    same = _results(group, _leaves(copied(inputs, "cpu")))
    on_cpu = _results(group, _leaves(tree_map(_wide, copied(inputs, "cpu"))))
    functions = [one.call for one in group]

    def run(given: Any) -> list[Any]:
        return [call(*args, **kwargs) for call, (args, kwargs) in zip(functions, given, strict=True)]

    got = _results(group, _leaves(copied(inputs, "mps")), torch.compile(run, fullgraph=True, dynamic=False))
    differ = []
    for one, there, exact, by_cpu in zip(group, got, on_cpu, same, strict=True):
        for value, judge, narrow in zip(there, exact, by_cpu, strict=True):
            if compared(value.cpu(), judge, partial(_same, narrow), tolerance_of("", value.dtype)) is not None:
                differ.append(f"{one.name} differs from the CPU")
                break
    launched = kernels.launched.items()
    faults = [f"{kernel.title} ({', '.join(kernel.operators)}): {one}" for kernel, of in launched for one in of.faults]
    return Outcome(len(launched), sum(bool(of.compared) for _, of in launched), faults, differ)


def _wide(leaf: Any) -> Any:
    return (
        widened(leaf)
        if isinstance(leaf, torch.Tensor)
        else WIDER.get(leaf, leaf)
        if isinstance(leaf, torch.dtype)
        else leaf
    )


def _same(value: torch.Tensor) -> torch.Tensor:
    return value


def _leaves(value: Any) -> Any:
    """Copies that are leaves; those of floats require a gradient."""
    return tree_map(
        lambda one: one.detach().requires_grad_(one.is_floating_point()) if isinstance(one, torch.Tensor) else one,
        value,
    )


def _results(group: Sequence[Function], given: Any, compiled: Callable[[Any], list[Any]] | None = None) -> list[Any]:
    """For each function its results, then the gradients of its inputs."""
    found = compiled(given) if compiled is not None else [one(inputs) for one, inputs in zip(group, given, strict=True)]
    results = [[one for one in tree_leaves(value) if isinstance(one, torch.Tensor)] for value in found]
    roots = [one for value in results for one in value if one.requires_grad]
    if roots:
        torch.autograd.backward(roots, [torch.ones_like(one) for one in roots])
    tensors = [[one for one in tree_leaves(inputs) if isinstance(one, torch.Tensor)] for inputs in given]
    return [
        [one.detach() for one in value] + [one.grad for one in inputs if one.requires_grad and one.grad is not None]
        for value, inputs in zip(results, tensors, strict=True)
    ]


KINDS: dict[str, tuple[str, Callable[[re.Match[str]], str]]] = {
    "an index that is read": (r"(= \w*in_ptr\d+\[)([^\];]+)\]", lambda m: f"{m[1]}metal::max(long({m[2]}) - 1, 0L)]"),
    "an index that is written": (r"(out_ptr\d+\[)([^\];]+)\](?= =)", lambda m: f"{m[1]}{m[2]} + 1]"),
    "a bound": (r"(; r\w+ < |< )(\d+)(?=[;) ])", lambda m: f"{m[1]}{max(int(m[2]) - 1, 0)}"),
    "a barrier": (r"threadgroup_barrier\([^;]*\);", lambda _: ""),
    "an accumulator": (r"(?<= )float (?=tmp_acc)", lambda _: "half "),
    "a constant": (r"(?<== )(-?\d+\.\d+)(?=;)", lambda m: repr(float(m[1]) * 1.05 + 0.05)),
    "an operation": (r"(?<=tmp\d) [+*] (?=tmp\d)", lambda m: " - "),
}


def _mistakes(arguments: argparse.Namespace, _device: NativeDevice, kernels: _Mistaken) -> int:
    chance, found, made, tries = Random(arguments.seed), 0, 0, 0
    groups = [[one] for one in _models()]
    while made < arguments.draw and tries < 10 * arguments.draw:
        tries += 1
        group, kind = chance.choice(groups), chance.choice([*KINDS])
        with _changed(kernels, kind, chance) as changed:
            try:
                result: Outcome | None = _compiled(group, kernels)
            except Exception as error:  # noqa: BLE001 - a changed source may not compile, or not end
                if not any("does not end" in str(one) for one in (error, error.__cause__)):
                    continue
                result = None
        if not changed or (result is not None and not result.faults and not result.differ):
            continue  # nothing to change of this kind, or the same results
        made += 1
        is_found = result is None or bool(result.faults)
        found += is_found
        said = "does not end" if result is None else next(iter(result.faults), "NOT FOUND")
        _print(f"{made}. {group[0].name}, {kind}, {changed[0]}: {said}")
    _print(f"{found} of {made} mistakes found, seed {arguments.seed}")
    return found < made


@contextmanager
def _changed(kernels: _Mistaken, kind: str, chance: Random) -> Iterator[list[str]]:
    """Change one place of that kind in the first source that has one."""
    pattern, how = KINDS[kind]
    changed: list[str] = []

    def change(source: str) -> str:
        places = [] if changed else list(re.finditer(pattern, source))
        if not places:
            return source
        place = chance.choice(places)
        text = how(place)
        changed.append(f"line {source.count(chr(10), 0, place.start()) + 1} {place[0]!r} -> {text!r}")
        return source[: place.start()] + text + source[place.end() :]

    kernels.change = change
    try:
        yield changed
    finally:
        kernels.change = str


def _models() -> Iterator[Function]:
    torch.manual_seed(0)
    x, w = torch.randn(13, 70), torch.randn(70)
    rows = torch.tensor([3, 0, 7, 12, 1, 5])
    calls: dict[str, Callable[..., Any]] = {
        "gelu": lambda x, w: F.gelu(x * w),
        "softmax": lambda x, w: torch.softmax(x * w, -1),
        "layer norm": lambda x, w: F.layer_norm(x, x.shape[-1:], w),
        "layer norm of several turns": lambda x, w: F.layer_norm(torch.cat([x * w] * 20, 1), (1400,)),
        "variance": lambda x, w: (x + w).var(0),
        "logsumexp": lambda x, w: (x * w).logsumexp(-1),
        "sums": lambda x, w: (x[:, None] * x[None] * w).sum((1, 2)),
        "gathered": lambda x, w: x[rows.to(x.device)] * w,
        "added at rows": lambda x, w: torch.zeros_like(x).index_add(0, rows.to(x.device), x[:6] * w),
        "padded": lambda x, w: F.pad(x * w, (1, 2)).exp(),
        "transposed": lambda x, w: (x * w).t().contiguous().relu() + 1.0,
        "maximum": lambda x, w: (x * w).amax(0) + (x - w).argmax(-1).sum(),
        "cross entropy": lambda x, w: F.cross_entropy(x * w, torch.arange(13, device=x.device) % 7),
        "prefix sums": lambda x, w: (x * w).cumsum(-1),
    }
    yield from (Function(name, call, ((x, w), {})) for name, call in calls.items())


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("functions", "mistakes"))
    parser.add_argument("--draw", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--dtypes", nargs="+", default=["float32", "float16", "bfloat16"])
    arguments = parser.parse_args()
    arguments.draw = arguments.draw or (150 if arguments.what == "functions" else 40)
    return arguments


def _print(text: str) -> None:
    print(text, flush=True)  # noqa: T201


if __name__ == "__main__":
    sys.exit(main())
