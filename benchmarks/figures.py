"""What is measured, and what each figure should reach."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import observing
import profiling
from checkpoint_70b import make_llama, make_many
from many_plugins import many_plugins
from measure import (
    EMPTY,
    BenchmarkFailed,
    Spread,
    cpu_ratio,
    cpu_seconds,
    gigabytes,
    mpsprobe,
    python,
    ratio,
    remembering,
    run_process,
    run_rounds,
    seconds,
)

PLUGIN = Path(__file__).resolve().parents[1] / "plugins" / "mpsprobe-coverage"
STEP = Path(__file__).resolve().parent / "step.py"
BERT_IMPORT = "import torch; from transformers.models.bert.modeling_bert import BertModel"
KERAS_BUILD = "import keras, tensorflow; keras.applications.MobileNetV2(weights=None)"
KERNELS_SHOW = ("kernels", "show", "aten::linalg_qr.out", "--torch", "all")
# Runs the command inside this interpreter, then fails if torch was imported on the way.
NO_TORCH = (
    "import sys; from mpsprobe.cli.main import main; "
    "code = main({arguments!r}); sys.exit(code or ('torch was imported' if 'torch' in sys.modules else 0))"
)

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Effort:
    """How often each thing is measured. ``slow`` counts whole runs of the largest models."""

    processes: int
    quick_commands: int
    steps: int
    slow: int
    warm_up: int


FULL = Effort(processes=5, quick_commands=21, steps=15, slow=3, warm_up=1)
QUICK = Effort(processes=1, quick_commands=5, steps=3, slow=1, warm_up=0)


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured value and what it should reach; ``reach`` is None for a value that is only shown."""

    what: str
    unit: str
    value: Spread | None
    reach: float | None = None

    def reached(self) -> bool | None:
        """Whether the median is within ``reach``; None where there is nothing to compare."""
        return None if self.value is None or self.reach is None else self.value.median <= self.reach


def bert(effort: Effort, tell: Tell) -> list[Figure]:
    """``coverage bert-base`` compared with the imports that it needs."""
    commands = {
        "import BertModel": python(BERT_IMPORT),
        "coverage bert-base": mpsprobe("coverage", "bert-base"),
        "coverage bert-base, training": mpsprobe("coverage", "bert-base", "--phase", "training"),
    }
    samples = run_rounds(commands, effort.processes, effort.warm_up, tell)
    inference, training = list(commands)[1:]
    return [
        Figure(f"{inference} ÷ import BertModel", "x", ratio(samples, inference, "import BertModel"), 1.15),
        Figure(f"{training} ÷ import BertModel", "x", ratio(samples, training, "import BertModel"), 1.20),
        Figure(
            f"{inference} ÷ import BertModel, processor time", "x", cpu_ratio(samples, inference, "import BertModel")
        ),
        Figure(f"{training} ÷ import BertModel, processor time", "x", cpu_ratio(samples, training, "import BertModel")),
        *(Figure(name, "s", seconds(samples[name])) for name in commands),
    ]


def keras(effort: Effort, tell: Tell) -> list[Figure]:
    """``coverage keras:mobilenet_v2`` compared with importing TensorFlow and building that model; none without it."""
    if find_spec("tensorflow") is None:
        return []
    ours, bare = "coverage keras:mobilenet_v2", "import TensorFlow and build MobileNetV2"
    commands = {bare: python(KERAS_BUILD), ours: mpsprobe("coverage", "keras:mobilenet_v2")}
    samples = run_rounds(commands, 2 * effort.processes, effort.warm_up, tell)
    return [
        Figure(f"{ours} ÷ {bare}", "x", ratio(samples, ours, bare), 1.3),
        Figure(f"{ours} ÷ {bare}, processor time", "x", cpu_ratio(samples, ours, bare)),
        *(Figure(name, "s", seconds(samples[name])) for name in commands),
    ]


def step(effort: Effort, tell: Tell) -> list[Figure]:
    """One step under the scanner, compared with the same step under ``FlopCounterMode``."""
    found = []
    for phase, shown in (("forward", "forward"), ("backward", "forward and backward")):
        first: dict[str, list[float]] = {"scanner": [], "flops": []}
        for index in range(effort.processes):
            order = list(first) if index % 2 == 0 else list(reversed(first))
            for which in order:
                tell(f"first step, {shown}, {which} ({index + 1} of {effort.processes})")
                first[which] += _in_process(phase, "first", which)["first"]
        tell(f"warm steps, {shown}")
        warm = _in_process(phase, "warm", str(effort.steps))
        found += [
            Figure(f"step {shown}: first of a process", "x", _pairs(first["scanner"], first["flops"]), 1.0),
            Figure(f"step {shown}: warm, a new device each time", "x", _pairs(warm["each"], warm["flops"]), 1.0),
            Figure(f"step {shown}: warm, repeated on one device", "x", _pairs(warm["repeated"], warm["flops"]), 1.0),
            Figure(f"step {shown}: scanner, warm, a new device each time", "s", Spread.of(warm["each"])),
            Figure(f"step {shown}: FlopCounterMode, warm", "s", Spread.of(warm["flops"])),
        ]
    return found


def large(effort: Effort, tell: Tell) -> list[Figure]:
    """The largest models, whole process."""
    found = []
    for name, time_reach, memory_reach in (("llama-3-70b", 12.0, 1.2), ("deepseek-v3", 60.0, 2.5)):
        samples = run_rounds({name: mpsprobe("coverage", name)}, effort.slow, 0, tell)[name]
        found += [
            Figure(f"coverage {name}", "s", seconds(samples), time_reach),
            Figure(f"coverage {name}, processor time", "s", cpu_seconds(samples)),
            Figure(f"coverage {name}: peak memory", "GB", gigabytes(samples), memory_reach),
        ]
    return found


def quick(effort: Effort, tell: Tell) -> list[Figure]:
    """Commands that should answer at once, compared with ``import click``."""
    lists = [("--help",), ("plugins", "list"), ("workloads", "list")]
    commands = {"import click": python("import click")}
    commands |= {" ".join(arguments): mpsprobe(*arguments) for arguments in lists}
    samples = run_rounds(commands, effort.quick_commands, effort.warm_up, tell)
    ratios = [
        Figure(f"{name} ÷ import click{what}", "x", measured(samples, name, "import click"), reach)
        for what, measured, reach in (("", ratio, 2.0), (", processor time", cpu_ratio, None))
        for name in commands
        if name != "import click"
    ]
    return [*ratios, Figure("import click", "s", seconds(samples["import click"]))]


def cached(effort: Effort, tell: Tell) -> list[Figure]:
    """An answer that is kept, which was worked out before, and one of the atlas, as whole processes.

    The atlas is as a package ships it, of all releases. ``first`` has another cache folder each time, with nothing in
    it; ``again`` has one that was there before.
    """
    with tempfile.TemporaryDirectory() as folder:
        swept, store = str(Path(folder) / "swept.sqlite"), str(Path(folder) / "atlas.sqlite")
        tell("a sweep of four workloads")
        names = ("bert-base", "distilbert", "gpt2", "resnet50")
        run_process(mpsprobe("atlas", "sweep", *names, "--size", "real", "-o", swept))
        run_process(python(f"from mpsprobe_atlas.shipping import ship; ship({swept!r}, {store!r})"))
        atlas = ("coverage", "bert-base", "--torch", "2.6.0", "--atlas")
        known = (f"MPSPROBE_ATLAS={store}",)
        commands = {
            "import click": python("import click"),
            "--help": mpsprobe("--help"),
            "coverage bert-base, cached": remembering(folder, "coverage", "bert-base"),
            "coverage bert-base, cached, json": remembering(folder, "coverage", "bert-base", "--format", "json"),
            "coverage bert-base, atlas, first": (*known, *remembering(EMPTY, *atlas)),
            "coverage bert-base, atlas, again": (*known, *remembering(folder, *atlas)),
            "coverage bert-base, atlas, json": (*known, *remembering(EMPTY, *atlas, "--format", "json")),
        }
        samples = run_rounds(commands, effort.quick_commands, max(1, effort.warm_up), tell)
    reaches = {"coverage bert-base, cached": 0.25, "coverage bert-base, cached, json": 0.25}
    compared = [
        Figure(f"{name} ÷ import click{what}", "x", measured(samples, name, "import click"), reach)
        for what, measured in (("", ratio), (", processor time", cpu_ratio))
        for name in [*commands][1:]
        for reach in [3.0 if "atlas" in name else None]
    ]
    return [*(Figure(name, "s", seconds(samples[name]), reaches.get(name)) for name in commands), *compared]


def kernels(effort: Effort, tell: Tell) -> list[Figure]:
    """One operator in every release's table, without torch."""
    name = " ".join(KERNELS_SHOW)
    run_process(python(NO_TORCH.format(arguments=list(KERNELS_SHOW))))
    samples = run_rounds({name: mpsprobe(*KERNELS_SHOW)}, effort.quick_commands, effort.warm_up, tell)[name]
    return [Figure(f"{name} (imports no torch)", "s", seconds(samples), 0.5)]


def checkpoint(effort: Effort, tell: Tell) -> list[Figure]:
    """What a checkpoint holds, without torch; and the memory for the largest header that is read."""
    with tempfile.TemporaryDirectory(prefix="mpsprobe-bench-") as place:
        arguments = ("checkpoint", str(make_llama(Path(place) / "llama")), "--torch", "2.13.0")
        run_process(python(NO_TORCH.format(arguments=list(arguments))))
        large = mpsprobe("checkpoint", str(make_many(Path(place) / "many.safetensors")), "--torch", "2.13.0")
        samples = run_rounds({"llama": mpsprobe(*arguments)}, effort.quick_commands, effort.warm_up, tell)["llama"]
        memory = gigabytes([run_process(large)])
    return [
        Figure("checkpoint of 70 billion parameters (imports no torch)", "s", seconds(samples), 0.5),
        Figure("checkpoint of 70 billion parameters: processor time", "s", cpu_seconds(samples)),
        Figure("checkpoint with 480,000 tensors in one header: peak memory", "GB", memory, 0.5),
    ]


def tables(effort: Effort, tell: Tell) -> list[Figure]:
    """Every kernel table: what they add to the wheel, and what they take on disk."""
    del effort
    tell("building the wheel of mpsprobe-coverage")
    with tempfile.TemporaryDirectory(prefix="mpsprobe-bench-") as folder:
        command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder]
        built = subprocess.run(command, cwd=PLUGIN, capture_output=True, text=True, check=False)
        if built.returncode:
            raise BenchmarkFailed(f"the wheel could not be built:\n{built.stderr[-2000:]}")
        (wheel,) = Path(folder).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            inside = [entry for entry in archive.infolist() if entry.filename.endswith(".table")]
    packed, unpacked = (
        sum(sizes) / 1000 for sizes in zip(*((e.compress_size, e.file_size) for e in inside), strict=True)
    )
    return [
        Figure(f"{len(inside)} kernel tables, packed in the wheel", "kB", Spread.of([packed]), 400.0),
        Figure(f"{len(inside)} kernel tables, unpacked", "kB", Spread.of([unpacked]), 400.0),
    ]


GROUPS: dict[str, Callable[[Effort, Tell], list[Figure]]] = {
    "bert": bert,
    "keras": keras,
    "step": step,
    "large": large,
    "quick": quick,
    "cached": cached,
    "kernels": kernels,
    "checkpoint": checkpoint,
    "plugins": many_plugins,
    "tables": tables,
    "profile": profiling.timing,
    "observe": observing.observing,
}


def _in_process(phase: str, mode: str, what: str) -> dict[str, list[float]]:
    with tempfile.TemporaryDirectory(prefix="mpsprobe-bench-") as folder:
        command = [sys.executable, str(STEP), phase, mode, what]
        ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise BenchmarkFailed(f"{' '.join(command)} ended with {ended.returncode}\n{ended.stderr[-2000:]}")
    times: dict[str, list[float]] = json.loads(ended.stdout)
    return times


def _pairs(above: list[float], below: list[float]) -> Spread:
    return Spread.of([one / other for one, other in zip(above, below, strict=True)])
