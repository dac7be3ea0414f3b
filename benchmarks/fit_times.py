"""Fits ``knowledge/times/data/times.toml`` to published figures, and says how well it holds on those that it left out.

    python benchmarks/fit_times.py fit        # writes the file again; the same figures give the same file
    python benchmarks/fit_times.py check      # the steps that were not fitted, and each chip's operators without it

``benchmarks/times/`` has the figures: operators (``operators.csv``, a public benchmark under MIT), products of
matrices and steps of models, each with its source. A step is fitted or checked by a digest of its chip and workload,
never both. Every parameter is moved up and down, one after the other, for as long as the sum of the logarithms of
predicted divided by measured becomes smaller: nothing is drawn at random.
"""

from __future__ import annotations

import csv
import hashlib
import json
import math
import statistics
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from step_traces import traced

from mpsprobe_coverage.knowledge.calls.spec import interned
from mpsprobe_coverage.knowledge.chips.store import Chip, all_chips
from mpsprobe_coverage.knowledge.times import model
from mpsprobe_coverage.knowledge.times.costs import Cost, cost

HERE = Path(__file__).parent
DATA = HERE / "times"
FILE = Path(model.__file__).parent / "data" / "times.toml"
FITTED = 0.45  # the share of steps that is fitted

STEP_WEIGHT, OPERATOR_WEIGHT = 4.0, 1.0
STEPS = (1.6, 1.2, 1.06, 1.02)
SHORT = 2.0
SMALL_SHARE = 0.02
FEW = 4  # figures of a class of kernels
PULL = 1.0  # what moving a parameter by a factor of e has to be worth, so that few figures do not carry it far away
EARLY_RELEASE = "2.1.0"
NEW_RELEASE = "2.6.0"
OLD_ROWS = 61  # a machine of the benchmark with that many rows was timed in January 2024, with torch 2.1


@dataclass
class Figure:
    """One published time. ``cores`` of which any may be meant are tried, as the prediction does."""

    name: str
    chip: Chip
    cores: int | None
    release: str
    calls: list[model.Call]
    ms: float
    is_step: bool
    source: str

    def predicted(self, known: Mapping[str, Any]) -> float:
        counts = self.chip.gpu_cores if self.cores is None else (self.cores,)
        each = [model.on_cores(self.calls, self.chip, count, self.release, known).step for count in counts]
        return (max(each) * min(each)) ** 0.5


def spec(*shape: int, dtype: torch.dtype = torch.float32, transposed: bool = False) -> Any:
    stride = [math.prod(shape[at + 1 :]) for at in range(len(shape))]
    if transposed:
        stride = [*stride[:-2], 1, shape[-2]]
    return interned(shape, tuple(stride), dtype)


def operator_cost(name: str, arguments: str) -> Cost | None:
    """What a row of the benchmark calls; None for one whose call is not known."""
    shapes = [[int(size) for size in word[4:].split("x")] for word in arguments.split() if word.startswith("dim=")]
    axis = next((int(word[4:]) for word in arguments.split() if word.startswith("axi=")), None)
    first = shapes[0]
    x = spec(*first)
    if name in ("Conv1d", "Conv2d"):  # channels last, weights (O, kh, kw, C)
        batch, *sizes, channels = first
        out, *window, _ = shapes[1]
        result = [size - kernel + 1 for size, kernel in zip(sizes, window, strict=True)]
        w = spec(out, channels, *window)
        return cost("aten::_mps_convolution", (spec(batch, channels, *sizes), w), (spec(batch, out, *result),))
    if name == "Linear":  # weights (K, N): their transpose goes into `linear`
        k, n = shapes[1]
        w = spec(n, k, transposed=True)
        return cost("aten::linear", (x, w, spec(n)), (spec(*first[:-1], n),))
    if name == "MatMul":
        if len(shapes[1]) == 3:
            return cost("aten::bmm", (x, spec(*shapes[1])), (spec(*first[:-1], shapes[1][-1]),))
        rows, n = math.prod(first[:-1]), shapes[1][-1]
        return cost("aten::mm", (spec(rows, first[-1]), spec(*shapes[1])), (spec(rows, n),))
    if name in ("Sum", "Argmax"):
        assert axis is not None
        left = [size for at, size in enumerate(first) if at != axis]
        return cost("aten::sum.dim_IntList" if name == "Sum" else "aten::argmax", (x,), (spec(*left),))
    if name == "SumAll":
        return cost("aten::sum", (x,), (spec(),))
    if name == "Sort":
        return cost("aten::sort", (x,), (x, spec(*first, dtype=torch.int64)))
    if name == "Softmax":
        return cost("aten::_softmax", (x,), (x,))
    if name == "Concat":
        parts = [spec(*shape) for shape in shapes]
        return cost("aten::cat", tuple(parts), (spec(sum(one.numel for one in parts)),))
    if name in ("Gather", "Scatter", "ScatterSum", "ScatterMax"):
        index = spec(shapes[1][0], first[-1], dtype=torch.int64)
        values = spec(shapes[1][0], first[-1])
        if name == "Gather":
            return cost("aten::gather", (x, index), (values,))
        called = "aten::scatter" if name == "Scatter" else "aten::scatter_reduce"
        return cost(called, (x, index, values), (values if name == "Scatter" else x,))
    if name == "BCE":
        return cost("aten::binary_cross_entropy", (x, x), (spec(),))
    if name == "LayerNorm":
        return cost("aten::native_layer_norm", (x,), (x,))
    if name == "ScaledDotProductAttention":
        q, k, v = (spec(*shape) for shape in shapes)
        return cost("aten::_scaled_dot_product_attention_math_for_mps", (q, k, v), (q,))
    return cost("aten::relu", (x,), (x,))


def operators() -> Iterator[Figure]:
    rows = list(csv.DictReader((DATA / "operators.csv").open(encoding="utf-8")))
    machines: dict[tuple[str, str], int] = defaultdict(int)
    for row in rows:
        machines[row["chip"], row["gpu_cores"]] += 1
    for row in rows:
        if row["mps_ms"] == "nan":
            continue
        called = operator_cost(row["operator"], row["arguments"])
        if called is None:
            continue
        machine = row["chip"], row["gpu_cores"]
        release = row["torch"] or (EARLY_RELEASE if machines[machine] == OLD_ROWS else NEW_RELEASE)
        chip = all_chips()[row["chip"].lower().replace(" ", "-")]
        cores = int(row["gpu_cores"]) if row["gpu_cores"] else None
        name = f"{row['operator']} {row['arguments']}"
        yield Figure(name, chip, cores, release, [model.Call(called, 1)], float(row["mps_ms"]), False, "operators.csv")
    for row in csv.DictReader((DATA / "matrices.csv").open(encoding="utf-8")):
        dtype = getattr(torch, row["dtype"])
        m, n, k = (int(row[name]) for name in ("rows", "columns", "summed"))
        called = cost("aten::mm", (spec(m, k, dtype=dtype), spec(k, n, dtype=dtype)), (spec(m, n, dtype=dtype),))
        chip = all_chips()[row["chip"]]
        cores = int(row["gpu_cores"]) if row["gpu_cores"] else None
        name = f"mm {row['dtype']} {m}"
        yield Figure(name, chip, cores, row["torch"], [model.Call(called, 1)], float(row["ms"]), False, row["source"])


def steps() -> tuple[list[Figure], list[Figure]]:
    """Those that are fitted, and those that are checked."""
    fitted: list[Figure] = []
    checked: list[Figure] = []
    for row in csv.DictReader((DATA / "steps.csv").open(encoding="utf-8")):
        if row["left_out"]:
            continue
        calls = merged(traced(row))
        name = " ".join(row[key] for key in ("workload", "phase", "dtype", "batch_size", "seq_len") if row[key])
        cores = int(row["gpu_cores"]) if row["gpu_cores"] else None
        chip = all_chips()[row["chip"]]
        figure = Figure(name, chip, cores, row["torch"], calls, float(row["step_ms"]), True, row["source"])
        (fitted if is_fitted(row) else checked).append(figure)
    return fitted, checked


def merged(calls: list[model.Call]) -> list[model.Call]:
    """Calls of one class whose arithmetic for each byte is about the same, as so many average ones: a tenth of them."""
    alike: dict[Any, list[model.Call]] = defaultdict(list)
    for one in calls:
        work, flops = one.cost, one.cost.flops
        intensity = round(3 * math.log2(flops / work.nbytes)) if flops and work.nbytes else 0
        alike[work.kind, work.dtype, work.kernels, bool(flops), intensity, one.on_cpu, one.waits].append(one)
    return [_average(group) for group in alike.values()]


def _average(group: list[model.Call]) -> model.Call:
    number, first = sum(one.calls for one in group), group[0]
    flops = sum(one.cost.flops * one.calls for one in group) / number
    nbytes = sum(one.cost.nbytes * one.calls for one in group) / number
    return first._replace(cost=first.cost._replace(flops=flops, nbytes=nbytes), calls=number)


def is_fitted(row: Mapping[str, str]) -> bool:
    """Rows that are ``kept_back`` were collected after the classes of kernels were drawn: they are checked alone."""
    if row["kept_back"]:
        return False
    key = f"{row['chip']} {row['workload']} {row['phase']}"
    return int(hashlib.sha256(key.encode()).hexdigest()[:8], 16) / 2**32 < FITTED


START: dict[str, Any] = {
    "rate": {"m1": 250.0, "m2": 260.0, "m3": 280.0, "m4": 320.0, "m5": 360.0},
    "float16": {"m1": 1.1, "m2": 1.1, "m3": 1.1, "m4": 1.1, "m5": 3.6},
    "bfloat16": {"m1": 0.54, "m2": 0.54, "m3": 1.0, "m4": 1.0, "m5": 3.6},
    "fixed": {"batch_norm": 100.0},
    "arithmetic": {
        "all": {
            "convolution": 0.7, "convolution_1x1": 0.5, "convolution_backward": 0.6, "convolution_backward_1x1": 0.45,
            "convolution_depthwise": 0.1, "matvec": 0.5, "attention": 0.5,
            "attention_decode": 0.5,
        },
        "early": {"convolution_narrow": 0.3, "matmul_narrow": 0.1, "linear_strided": 0.3},
        "late": {"convolution_narrow": 0.5, "matmul_narrow": 0.3, "linear_strided": 1.0},
    },
    "bandwidth": {
        when: {
            "elementwise": 0.7, "matmul": 0.8, "matmul_narrow": 0.8, "linear_strided": 0.8, "matvec": 0.75,
            "convolution": 0.6, "convolution_1x1": 0.6, "convolution_narrow": 0.3, "convolution_backward": 0.6,
            "convolution_backward_1x1": 0.6, "convolution_depthwise": 0.5, "attention": 0.6,
            "attention_decode": 0.6, "softmax": 0.6, "normalisation": 0.5, "batch_norm": 0.6,
            "reduction": 0.7, "reduction_inner": 0.7,
            "argmax": 0.2, "argmax_inner": 0.2, "copy": 0.7, "gather": 0.2, "scatter": 0.2, "scatter_reduce": 0.3,
            "sort": 0.02, "random": 0.4, "loss": 0.4, "pooling": 0.5, "optimizer": 0.6,
            "other_operators": 0.1,
        }
        for when in ("early", "late")
    },
    "before": {
        "2.2.0": {
            "convolution_narrow": 1.5, "softmax": 2.0,
            "loss": 8.0, "argmax": 1.3, "argmax_inner": 1.3, "sort": 1.5, "launch": 1.6, "sync": 2.0,
        },
        "2.0.0": {"matmul": 1.1, "convolution": 1.1, "normalisation": 1.1, "batch_norm": 1.1, "launch": 1.3},
    },
    "host": {"launch_us": 26.0, "view_us": 2.0, "kernel_us": 5.0, "sync_us": 120.0, "each_generation": 0.89},
    "channels_last": {"gb_per_s": 1.65, "since": "2.6.0", "before": "2.15.0"},
    "cpu": {"gb_per_s": 25.0, "gflops": 300.0},
}  # fmt: skip
Path_ = tuple[str, ...]


def paths(tree: Mapping[str, Any], above: Path_ = ()) -> Iterator[Path_]:
    for name, value in tree.items():
        if isinstance(value, Mapping):
            yield from paths(value, (*above, name))
        elif above[:1] not in (("cpu",), ("channels_last",)):
            yield (*above, name)


def changed(tree: dict[str, Any], path: Path_, factor: float) -> None:
    for name in path[:-1]:
        tree = tree[name]
    value = tree[path[-1]] * factor
    tree[path[-1]] = min(value, 1.05) if path[0] == "bandwidth" and factor > 1 else value


def value_at(tree: Any, path: Path_) -> float:
    for name in path:
        tree = tree[name]
    return float(tree)


def error(figure: Figure, known: Mapping[str, Any]) -> float:
    """The logarithm of predicted divided by measured, of which the largest count no more than a factor of two."""
    off = abs(math.log(figure.predicted(known) / figure.ms))
    weight = STEP_WEIGHT if figure.is_step else OPERATOR_WEIGHT
    return weight * min(off, math.log(SHORT) + 0.3 * (off - math.log(SHORT)) if off > math.log(SHORT) else off)


def fitted(
    figures: list[Figure],
    begin: Mapping[str, Any] = START,
    sizes: tuple[float, ...] = STEPS,
    pulled_to: Mapping[str, Any] = START,
) -> dict[str, Any]:
    known = deepcopy(dict(begin))
    now = [error(figure, known) for figure in figures]
    start_of = {path: value_at(pulled_to, path) for path in paths(known)}
    for size in sizes:
        for _ in range(4):
            moved = 0
            for path in paths(known):
                concerned = [at for at, figure in enumerate(figures) if concerns(path, figure)]
                if not concerned:
                    continue
                for factor in (size, 1 / size):
                    before = value_at(known, path)
                    changed(known, path, factor)
                    after = value_at(known, path)
                    tried = {at: error(figures[at], known) for at in concerned}
                    pull = PULL * (abs(math.log(after / start_of[path])) - abs(math.log(before / start_of[path])))
                    if sum(tried.values()) + pull < sum(now[at] for at in concerned) - 1e-9:
                        for at, value in tried.items():
                            now[at] = value
                        moved += 1
                        break
                    changed(known, path, before / after)
            if not moved:
                break
    return known


def concerns(path: Path_, figure: Figure) -> bool:
    generation, when = figure.chip.generation, model.era(figure.chip)
    if path[0] in ("rate", "float16", "bfloat16") and path[1] != generation:
        return False
    if path[0] in ("float16", "bfloat16"):
        return any(one.cost.dtype == path[0] for one in figure.calls)
    if path[0] in ("arithmetic", "bandwidth"):
        return path[1] in (when, "all") and any(one.cost.kind == path[2] for one in figure.calls)
    if path[0] == "before":
        return model.is_before(figure.release, path[1]) and (
            path[2] == "launch" or any(one.cost.kind == path[2] for one in figure.calls)
        )
    return True


def rounded(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {name: rounded(value) for name, value in tree.items()}
    if isinstance(tree, list):
        return [rounded(value) for value in tree]
    return float(f"{tree:.3g}") if isinstance(tree, float) else tree


def ranges(known: Mapping[str, Any], figures: list[Figure]) -> dict[str, Any]:
    """Factors that hold nine of ten fitted steps: ``near`` by a fit without its chip, ``far`` without its workload."""
    steps_only = [figure for figure in figures if figure.is_step]

    def apart(name_of: Callable[[Figure], str]) -> list[float]:
        found = []
        for name in dict.fromkeys(map(name_of, steps_only)):
            own = [figure for figure in steps_only if name_of(figure) == name]
            without = fitted([one for one in figures if one not in own], known, (1.2,))
            found += [one.ms / one.predicted(without) for one in own]
        ordered = sorted(found)
        low, high = ordered[int(0.05 * len(ordered))], ordered[math.ceil(0.95 * len(ordered)) - 1]
        return [min(low, 1 / high), max(high, 1 / low)]

    seen: dict[str, int] = defaultdict(int)
    for figure in figures:
        for kind in {one.cost.kind for one in figure.calls}:
            seen[kind] += 1
    kinds = {kind for of_era in known["bandwidth"].values() for kind in of_era}
    halves = {
        f"{one.cost.dtype} {figure.chip.generation}"
        for figure in steps_only
        for one in figure.calls
        if one.cost.dtype != "float32"
    }
    like: dict[str, dict[str, list[dict[str, float]]]] = {"early": {}, "later": {}}
    for figure in steps_only:
        cores = figure.cores or figure.chip.gpu_cores[0]
        shares = model.on_cores(figure.calls, figure.chip, cores, figure.release, known).shares()
        era = "early" if model.is_before(figure.release, model.FIRST_CHECKED) else "later"
        like[era].setdefault(" ".join(figure.name.split()[:2]), []).append(shares)
    return {
        "near": apart(lambda figure: figure.chip.name),
        "far": apart(lambda figure: figure.name.split()[0]),
        "rare": sorted(kind for kind in kinds if seen[kind] < FEW),
        "generations": sorted({figure.chip.generation for figure in steps_only}),
        "dtypes": sorted(halves),
        "like": {era: {name: _mean(some) for name, some in own.items()} for era, own in like.items()},
    }


def _mean(some: list[dict[str, float]]) -> dict[str, float]:
    """The mean shares, of which the small ones are left out."""
    names = sorted({name for one in some for name in one})
    means = {name: statistics.fmean(one.get(name, 0.0) for one in some) for name in names}
    return {name: share for name, share in means.items() if share >= SMALL_SHARE}


HEAD = """# How fast kernels run on Apple's chips: fitted by benchmarks/fit_times.py to what lies in benchmarks/times/.
# Not written by hand: change the figures or the script, and run it again.
# rate: GFLOP/s of float32 products of matrices for each core of the GPU. float16, bfloat16: times that.
# fixed: GB/s that a class does not exceed on any chip.
# arithmetic: what other classes of kernels reach of it, all: on every chip. bandwidth: of the chip's, for bytes counted
# once.
# early: Apple7 and Apple8 (M1, M2); late: since. before: how much longer releases before that one take.
# host: microseconds of an M1's CPU for a kernel and a view, of the GPU to start a kernel, and to wait for it;
# each_generation: how much of that the CPU of the next generation takes.
# channels_last: GB/s at which gradients of 2D convolutions read and write such tensors on these releases, by the one
# figure that was published (pytorch#193349; #141009 brought it, #193623 ended it). It is set, not fitted.
# cpu: what is left to the CPU. It is set, not fitted: no step was published.
# range: the factors of the shown range; near: where a step like it was fitted, far: where none was. like: to which
# kernels those steps give their time, on releases before 2.0.0 (early) and since.
"""


def written(tree: Mapping[str, Any], above: str = "") -> str:
    plain = {name: value for name, value in tree.items() if not isinstance(value, dict)}
    text = f"\n[{above}]\n" if above and plain else ""
    text += "".join(f"{name} = {json.dumps(value)}\n" for name, value in plain.items())
    for name, value in tree.items():
        if isinstance(value, dict):
            key = name if name.isidentifier() else json.dumps(name)
            text += written(value, f"{above}.{key}" if above else key)
    return text


def factor(figure: Figure, known: Mapping[str, Any]) -> float:
    off = figure.predicted(known) / figure.ms
    return max(off, 1 / off)


def summary(what: str, factors: list[float]) -> str:
    if not factors:
        return f"{what}: none"
    ordered = sorted(factors)
    return (
        f"{what}: {len(ordered)} figures, median {statistics.median(ordered):.2f}, nine of ten within "
        f"{ordered[math.ceil(0.9 * len(ordered)) - 1]:.2f}, worst {ordered[-1]:.2f}"
    )


def fit() -> None:
    known_steps, _ = steps()
    figures = [*operators(), *known_steps]
    known = rounded(fitted(figures))
    known["range"] = rounded(ranges(known, figures))
    FILE.write_text(HEAD + written(known), encoding="utf-8")
    say(summary("fitted steps", [factor(one, known) for one in known_steps]))
    say(summary("fitted operators", [factor(one, known) for one in figures if not one.is_step]))


def check(apart: bool) -> None:
    known = model.numbers()
    fitted_steps, checked = steps()
    for one in sorted(checked, key=lambda one: (one.name, one.chip.name)):
        made = one.predicted(known)
        figures = f"{one.ms:9.1f} ms, predicted {made:9.1f}: {made / one.ms:.2f}"
        say(f"  {one.chip.name:9} {one.release:7} {one.name:58} {figures}")
    say(summary("checked steps", [factor(one, known) for one in checked]))
    since = [one for one in checked if not model.is_before(one.release, "2.0")]
    say(summary("checked steps of torch 2.0 and later", [factor(one, known) for one in since]))
    inside = 0
    for one in checked:
        shown = model.estimate(one.calls, one.chip, one.cores, one.release)
        inside += shown is not None and shown.step_ms.low <= one.ms <= shown.step_ms.high
    say(f"the shown range holds {inside} of {len(checked)} checked steps ({inside / max(len(checked), 1):.0%})")
    pairs = [
        (one, other)
        for one in checked
        for other in (*fitted_steps, *checked)
        if (one.name, one.release) == (other.name, other.release) and one.ms > 1.15 * other.ms
    ]
    pairs += [
        (other, one)
        for one in checked
        for other in fitted_steps
        if (one.name, one.release) == (other.name, other.release) and other.ms > 1.15 * one.ms
    ]
    right = sum(slow.predicted(known) > fast.predicted(known) for slow, fast in pairs)
    say(f"order of two chips: right in {right} of {len(pairs)} pairs that differ by more than 15 %")
    if apart:
        of_operators = list(operators())
        factors = []
        for name in sorted({one.chip.name for one in of_operators}):
            others = [one for one in of_operators if one.chip.name != name]
            without = fitted(others, sizes=(1.4, 1.1))
            own = [factor(one, without) for one in of_operators if one.chip.name == name]
            factors += own
            say(summary(f"  operators of {name}, fitted without it", own))
        say(summary("operators, each chip fitted without it", factors))


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


COMMANDS: Mapping[str, Callable[[], None]] = {
    "fit": fit, "check": partial(check, apart=False), "check-chips": partial(check, apart=True),
}  # fmt: skip

if __name__ == "__main__":
    COMMANDS[sys.argv[1]]()
