"""The options of this plugin's commands, with errors that name the nearest right value."""

from __future__ import annotations

import contextlib
import math
import os
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from mpsprobe.declarations import PHASES
from mpsprobe.errors import MpsprobeError, UnknownName, UsageError
from mpsprobe.options import (
    ANSWER,
    DTYPE_OPTION,
    LARGEST,
    SIZE_OPTION,
    TRUST_OPTION,
    WHAT,
    F,
    File,
    Named,
    Names,
    Positive,
    completing,
    often,
    rare,
    together,
)  # fmt: skip
from mpsprobe.suggestions import printable

if TYPE_CHECKING:
    from mpsprobe.plugins.registry import Registry
    from mpsprobe_coverage.knowledge.kernels.table import KernelFamily
    from mpsprobe_coverage.scanning.vary import Vary

TORCH = "torch"
GENERATE = "generate"
ADVISORY, ASSUMED, MEMORY = "advisory", "assumed", "memory"
ALL = "all"
VARIED = ("seq-len", "batch-size", "size", "new-tokens")
VARY_EXAMPLE = "--vary seq-len=1..512"
KNOWN_MACOS = ("12", "13", "14", "15", "26", "27")
"""Versions of macOS with MPS, which came with 12.3. Apple went from 15 to 26; an advisory is about a beta of 27."""
FAILING = ("missing", "fallback", "unsupported", "unknown", ASSUMED, MEMORY, ADVISORY)
WILD = frozenset("*?[")


MAC, GATE, GENERATION, SEVERAL = "Which Mac", "Gate", "Generation", "Several workloads"
"""More sections of the help."""


def is_pattern(name: str) -> bool:
    """Whether a name stands for all that fit it (``bert-*``); a file whose name has such signs is itself."""
    path = name.rpartition(":")[0] or name
    return bool(WILD.intersection(name)) and not os.path.exists(path)  # noqa: PTH110 - of any length


def framework(names: Sequence[str], registry: Registry) -> str:
    """What the workloads are written in; a name that is wrong is said later.

    Raises:
        UsageError: they are not all written in the same framework: a release is one of one of them.
    """
    frameworks: dict[str, str] = {}
    for name in names:
        with contextlib.suppress(MpsprobeError):
            frameworks.setdefault(registry.workload_and_owner(name)[0].framework, name)
    if len(frameworks) > 1:
        some = ", ".join(f"{printable(name)} ({framework})" for framework, name in frameworks.items())
        raise UsageError(f"the workloads are of several frameworks: {some}", "Judge those of each by themselves.")
    return next(iter(frameworks), TORCH)


def releases(text: str, family: KernelFamily) -> list[str]:
    """``--torch`` as exact releases of ``family``, oldest first; ``installed`` stays as it is.

    Raises:
        UsageError: there is no such release.
    """
    if text == ALL:
        return list(family.releases)
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts:
        raise UsageError("--torch needs a release", "For example 2.6.0, installed, latest or all.")
    if "installed" in parts:
        if len(parts) > 1:
            raise UsageError("--torch installed stands alone", "Name the releases by number to compare several.")
        return ["installed"]
    return sorted({family.resolve(part) for part in parts}, key=family.releases.index)


def macos_version(value: Any) -> str:
    """A version of macOS: ``14``, ``13.2``, ``26.1``."""
    text = str(value).strip()
    if not re.fullmatch(rf"({'|'.join(KNOWN_MACOS)})(\.\d{{1,2}}){{0,2}}", text):
        hint = f"Known: {', '.join(KNOWN_MACOS)}, each also with a minor version, such as 14.4."
        raise UsageError(f"'{printable(text)[:40]}' is no version of macOS that can be judged for", hint)
    return text


def chip_name(value: Any) -> str:
    """A chip with or without its memory: ``m1``, ``m2-pro-16gb``."""
    from mpsprobe_coverage.knowledge.chips.store import machine_named

    return machine_named(str(value)).name


def memory_bytes(value: Any) -> int:
    """A size of a Mac's memory: ``16GB``, ``64GiB``; a number is bytes."""
    from mpsprobe_coverage.knowledge.chips.store import memory_size

    return value if isinstance(value, int) else memory_size(str(value))


def vary_range(value: Any) -> Vary:
    """What has many values, and which: ``seq-len=1..512``."""
    from mpsprobe_coverage.scanning.vary import Vary

    name, _, numbers = str(value).partition("=")
    if name not in VARIED:
        raise UnknownName("kind of size", name, VARIED, f"There are {', '.join(VARIED)}; for example {VARY_EXAMPLE}.")
    ends = re.fullmatch(r"(\d{1,40})\.\.(\d{1,40})", numbers, re.ASCII)
    first, last = (int(ends[1]), int(ends[2])) if ends else (0, 0)
    if not 0 < first <= last <= LARGEST:
        most = f"to {LARGEST}" if last > LARGEST else "on"
        raise UsageError(
            f"'{printable(numbers)[:40]}' is no range of whole numbers from 1 {most}",
            f"For example --vary {name}=1..{512 if name == 'seq-len' else 64}.",
        )
    return Vary(name, first, last)


def gradient_norm(value: Any) -> float:
    """A number from 0 on."""
    try:
        number = float(value)
    except ValueError:
        number = -1.0
    if not 0 <= number < math.inf:
        raise UsageError(f"--clip-norm takes a number from 0 on, not '{printable(str(value))[:40]}'")
    return number


def verdicts(value: Any) -> tuple[str, ...]:
    """Verdicts with commas between them, and ``advisory`` for known wrong results, ``assumed`` and ``memory``."""
    parts = value if isinstance(value, (tuple, list)) else str(value).split(",")
    names = tuple(part.strip() for part in parts if part.strip())
    for name in names:
        if name not in FAILING:
            raise UnknownName("verdict", name, FAILING, "There are: " + ", ".join(FAILING) + ".")
    if not names:
        raise UsageError("--fail-on needs at least one verdict", "There are: " + ", ".join(FAILING) + ".")
    return names


def _releases() -> list[str]:
    from mpsprobe_coverage.knowledge.kernels.releases import torch_releases

    return ["installed", "latest", ALL, *torch_releases()]


def chips() -> list[str]:
    from mpsprobe_coverage.knowledge.chips.store import all_chips

    chips = all_chips()
    return [*chips, *(f"{name}-{size}gb" for name, chip in chips.items() for size in chip.memory_gib)]


complete_release = completing(_releases)


def torch_option(default: str | None, text: str, metavar: str = "VERSION,…") -> Callable[[F], F]:
    """``--torch VERSION``, with the help ``text``; ``--release`` is the same, for backends of other frameworks."""
    names = ("--torch", "--release", "torch_release")
    return often(MAC, *names, metavar=metavar, default=default, help=text, shell_complete=complete_release)


PHASE_OPTION = often(
    WHAT, "--phase", type=Named("phase", (*PHASES, GENERATE)), metavar="PHASE", default="inference",
    help="inference, training, generate",
)  # fmt: skip
BACKEND_OPTION = rare(MAC, "--backend", metavar="NAME", default="mps", help="Whose kernels; others come with plugins.")
model_options = together(
    DTYPE_OPTION,
    often(WHAT, "--batch-size", type=Positive(), help="Samples in a step [default: the workload's own]."),
    often(WHAT, "--seq-len", type=Positive(), help="Tokens (frames, …) in a sample [default: likewise]."),
    SIZE_OPTION,
    TRUST_OPTION,
)
NEW_TOKENS_OPTION = often(GENERATION, "--new-tokens", type=Positive(), default=8, help="What --phase generate makes.")
CHIP_OPTION = often(
    MAC, "--chip", type=chip_name, metavar="NAME", shell_complete=completing(chips),
    help="Such as m2 or m2-pro-16gb ('mpsprobe chips list').",
)  # fmt: skip
MEMORY_OPTION = rare(
    MAC, "--memory", type=memory_bytes, metavar="SIZE", help="The Mac's, such as 16GB: whether it fits."
)


def mac_options(
    macos: str = "The macOS to judge for [default: a new one].", *, memory: bool = True
) -> Callable[[F], F]:
    """The flags of ``MacOptions``; ``macos`` is the help of ``--macos``."""
    of_macos = often(MAC, "--macos", type=macos_version, metavar="VERSION", help=macos)
    return together(of_macos, CHIP_OPTION, *([MEMORY_OPTION] if memory else []))


ATLAS_OPTION = rare(
    ANSWER, "--atlas/--no-atlas", default=None,
    help="Take the answer that mpsprobe-atlas knows, also of other versions [default: where a run would say the same].",
)  # fmt: skip
several_options = together(
    rare(SEVERAL, "--workloads", "files", multiple=True, type=File(), help="Judge what FILE names too, one in a line."),
    rare(SEVERAL, "--jobs", type=Positive(), help="Most processes for several workloads [default: up to 4]."),
    rare(SEVERAL, "--timeout", type=Positive(), default=600, help="Seconds that one of several may take."),
)
EXPLAIN_OPTION = often(ANSWER, "--explain", is_flag=True, help="Show for each operator what its verdict rests on.")


def gate_options(*more: str) -> Callable[[F], F]:
    """``--fail-on`` and ``--allow``; ``more`` says what the words mean that are no verdicts."""
    words = "; ".join(["'advisory': where results are known to be wrong", *more])
    on = f"Exit with 1 on such an operator: missing,unsupported\f; {words}."
    off = "What --fail-on passes over: linalg_qr, aten::fft_*."
    complete = completing(lambda: FAILING)
    return together(
        often(GATE, "--fail-on", type=verdicts, metavar="VERDICT,…", shell_complete=complete, help=on),
        rare(GATE, "--allow", type=Names(), metavar="OPERATOR,…", help=off),
    )
