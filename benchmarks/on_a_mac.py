"""Every prediction against what a Mac's torch does: the lines in which they differ, and which of these are new.

    python benchmarks/on_a_mac.py -o differences.json [--models NAME …] [--entries NAME …] [--device virtual]

- ``calls``: the samples of PyTorch's own tests (OpInfo), of which the verdicts say whether they raise;
- ``advisories``: a call of each one that says what it computes, which is wrong where release and macOS have it;
- ``models``: 20 small ones: ``verify``, what ``observe`` sees, whether a step raises, and the memory of its allocator.

A line is new if ``on_a_mac_known.txt`` does not have it. Each piece has a process of its own, whose end is a line too.
Where torch finds no MPS it says so and that is all. ``--device virtual`` tries the script without a Mac.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve()
KNOWN = HERE.with_name("on_a_mac_known.txt")
TESTS = HERE.parents[1] / "plugins" / "mpsprobe-coverage" / "tests"
MODELS = (
    *("bert-base", "distilbert", "modernbert-base", "bge-m3", "gpt2", "qwen3-0.6b", "smollm2-135m", "gemma-3-270m"),
    *("t5-small", "mamba", "resnet50", "vit-base", "convnext", "dinov2-small", "segformer", "clip-vit-large"),
    *("whisper-tiny", "wav2vec2-base", "patchtst", "tapas"),
)
DTYPES = ("float32", "float16", "int64")
AT_ONCE = 24
MEMORY = 0.1
"""A prediction of memory is within so much of it."""


def device(name: str) -> AbstractContextManager[Any]:
    """The Mac's own, or the virtual one, which raises where a Mac does."""
    if name == "mps":
        return nullcontext()
    from mpsprobe_coverage.devices.native.device import NativeDevice
    from mpsprobe_coverage.knowledge.judging.chain import Chain
    from mpsprobe_coverage.knowledge.kernels.mps import load_table
    from mpsprobe_coverage.knowledge.kernels.releases import installed_release

    return NativeDevice(Chain(load_table(installed_release())), lines=False, keep_going=False)


def expected(keys: list[str], _device: str) -> Iterator[str]:
    """``dtype entry`` of those whose samples raise, by the verdicts."""
    from mpsprobe_coverage.knowledge.kernels.mps import load_table
    from mpsprobe_coverage.knowledge.kernels.releases import installed_release
    from mpsprobe_tables.audit.running import FORWARD, run_entries

    for dtype in DTYPES:
        for pair in run_entries(keys, dtype, [load_table(installed_release())], gradient=False):
            for ran in pair.runs.values() if pair.drawing is None and pair.forward is None else ():
                raises = any(seen.refuses and seen.phase == FORWARD for seen in ran.calls)
                if raises or any(one.reference_works for one in ran.raised):
                    yield f"{dtype} {pair.entry}"


def raised(keys: list[str], name: str) -> Iterator[str]:
    """The same by running them, with the error behind a colon."""
    from mpsprobe_tables.audit.entries import entry_named
    from mpsprobe_tables.audit.procedure import draw, forward, is_for_mps, message, undisturbed

    with device(name), undisturbed():
        for dtype in DTYPES:
            for key in keys:
                entry = entry_named(key)
                try:
                    samples = draw(entry, dtype, gradients=False)
                    for sample in samples:
                        forward(entry, sample)
                except Exception:  # noqa: BLE001 - the CPU does not take it either
                    continue
                try:
                    for sample in samples:
                        moved = sample.transform(lambda one: one.to("mps") if is_for_mps(one) else one)
                        forward(entry, moved)
                except Exception as error:  # noqa: BLE001 - is what is asked
                    yield f"{dtype} {key}: {message(error)}"


def calls(keys: list[str], name: str) -> Iterator[str]:
    """Entries that raise and should not, and the other way round."""
    seen = {line.partition(": ")[0]: line for line in part("raised", keys, name)}
    foretold = set(part("expected", keys, name))
    for one in sorted({*seen, *foretold}):
        if one.startswith("this piece") or (one in seen) != (one in foretold):
            yield seen.get(one) or (one if one.startswith("this piece") else f"{one} runs, and was predicted to raise")


def advisories(names: list[str], name: str) -> Iterator[str]:
    """Calls that are right although an advisory says otherwise, and the other way round."""
    sys.path[:0] = [str(HERE.parents[1]), str(TESTS / "devices" / "native"), str(TESTS / "knowledge" / "advisories")]
    import test_wrong

    from mpsprobe_coverage.knowledge.advisories.store import named
    from mpsprobe_coverage.knowledge.kernels.releases import installed_release

    with device(name):
        for advisory, (hit, _), phase, _ in test_wrong.calls(names):
            affected = named([advisory])[0].affects(installed_release(), None, platform.mac_ver()[0] or None)
            try:
                wrong = not test_wrong.alike(hit, phase)
            except Exception as error:  # noqa: BLE001 - a call that raises is none that comes out wrong
                yield f"{advisory}: {type(error).__name__}: {str(error).splitlines()[0][:100]}"
                continue
            if wrong != affected:
                yield f"{advisory} is {'wrong' if wrong else 'right'} here, and was predicted to be the other"


def model(names: list[str], name: str) -> Iterator[str]:
    """What differs in a training step of one small model."""
    start = [sys.executable, "-c", "from mpsprobe.cli.main import main; main()"]
    asked = ["coverage", *names, "--phase", "training", "--size", "small", "--format", "json"]
    done = subprocess.run([*start, *asked], capture_output=True, text=True, check=True)
    predicted = json.loads(done.stdout)
    import torch

    import mpsprobe
    from mpsprobe.plugins.registry import get_registry
    from mpsprobe.progress import SilentProgress
    from mpsprobe.protocols import RunOptions
    from mpsprobe.stepping import TorchStep
    from mpsprobe_coverage.verifying.device_to_compare import Virtual
    from mpsprobe_coverage.verifying.runs import built, placed
    from mpsprobe_coverage.verifying.verification import Verification

    there = {one["operator"]: one["verdict"] for one in predicted["operators"]}
    raises = not {"missing", "unsupported"}.isdisjoint(there.values())
    options = RunOptions(phase="training", size="small")
    with device(name):
        workload = get_registry().workload(names[0])
        run = built(workload, options)
        before, failure = torch.mps.driver_allocated_memory(), None
        with mpsprobe.observe("mps") as observed:
            try:
                step = TorchStep(placed(run, "mps"), options, "mps")
                for _ in range(2):
                    step.take()
            except Exception as error:  # noqa: BLE001 - is what is asked
                failure = f"{type(error).__name__}: {str(error).splitlines()[0][:100]}"
        if (failure is not None) != raises:
            yield failure or "runs, and was predicted to raise"
        if failure is None:
            seen = {one.operator: one.verdict for one in observed.report().operators}
            for one in sorted({*seen, *there}):
                pair = seen.get(one, "native"), there.get(one, "native")  # views are not called alike
                if pair[0] != pair[1]:
                    yield f"observe: {one} is {pair[0]}, predicted {pair[1]}"
            held, asked = torch.mps.driver_allocated_memory() - before, predicted["memory"]["reserved_bytes"]
            if abs(held - asked) > MEMORY * asked:
                yield f"memory: {held >> 20} MiB, predicted {asked >> 20} MiB"
        del run
        place: Any = Virtual(torch.__version__.partition("+")[0]) if name == "virtual" else get_registry().device(name)
        report = Verification(workload, options, place, SilentProgress(), lambda text: None).report()
        for one in report.wrong:
            known = ", ".join(advisory.id for advisory in one.advisories) or "not known"
            yield f"verify: {one.operator} in {one.phase} is wrong, {known}"


PARTS: dict[str, Callable[[list[str], str], Iterator[str]]] = {
    "expected": expected, "raised": raised, "calls": calls, "advisories": advisories, "model": model
}  # fmt: skip


def part(what: str, names: list[str], name: str) -> list[str]:
    """The lines of a piece, from a process of its own."""
    command = [sys.executable, "-W", "ignore", str(HERE), "--part", what, "--device", name, "--names", *names]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("= ")]
    if done.returncode:
        why = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        lines.append(f"= this piece ended ({what} of {names[0]}…): {why[:200]}")
    return [line.removeprefix("= ") for line in lines]


def has_mps(name: str) -> bool:
    import torch

    return name == "virtual" or torch.backends.mps.is_available()


def main() -> int:
    """All parts, or the one that ``--part`` names; differences are no failure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--device", choices=("mps", "virtual"), default="mps")
    parser.add_argument("--models", nargs="*", default=MODELS)
    parser.add_argument("--entries", nargs="*")
    parser.add_argument("--advisories", nargs="*")
    parser.add_argument("--minutes", type=float, default=40.0, help="after which no further piece begins")
    parser.add_argument("--part", choices=PARTS, help=argparse.SUPPRESS)
    parser.add_argument("--names", nargs="*", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.part:
        for line in PARTS[given.part](given.names, given.device):
            sys.stdout.write(f"= {line}\n")
            sys.stdout.flush()
        return 0
    if not has_mps(given.device):
        sys.stdout.write("There is no MPS on this machine: nothing was compared.\n")
        return 0
    known = {line for line in KNOWN.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")}
    found: list[dict[str, Any]] = []
    end = time.monotonic() + 60 * given.minutes
    for what, names in pieces(given):
        if time.monotonic() > end:
            sys.stdout.write(f"not tried for want of time: {what} {' '.join(names)}\n")
            continue
        for line in part(what, names, given.device):
            text = f"{f'{what} {names[0]}' if what == 'model' else what}: {line}"
            found.append({"text": text, "new": text not in known})
            sys.stdout.write(f"{'NEW ' * (text not in known)}{text}\n")
    new = sum(one["new"] for one in found)
    sys.stdout.write(f"{len(found)} differences, {new} of them new.\n")
    if given.output:
        about = {"macos": platform.mac_ver()[0], "machine": platform.platform(), "differences": found}
        given.output.write_text(json.dumps(about, indent=1), encoding="utf-8")
    return 0


def pieces(given: argparse.Namespace) -> Iterator[tuple[str, list[str]]]:
    from mpsprobe_coverage.knowledge.advisories.store import all_advisories
    from mpsprobe_tables.audit.entries import entries

    yield from (("model", [name]) for name in given.models)
    computed = sorted(one.id for one in all_advisories() if one.computes)
    keys = sorted(entries()) if given.entries is None else given.entries
    for what, names in ("advisories", computed if given.advisories is None else given.advisories), ("calls", keys):
        yield from ((what, names[first : first + AT_ONCE]) for first in range(0, len(names), AT_ONCE))


if __name__ == "__main__":
    sys.exit(main())
