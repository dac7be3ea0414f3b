"""Values of this plugin's options, with errors that name the nearest right value."""

from __future__ import annotations

import contextlib
import math
import os
import re
from collections.abc import Callable, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

import click

from mpsprobe.declarations import DTYPES, PHASES, SIZES
from mpsprobe.errors import MpsprobeError, UnknownName, UsageError
from mpsprobe.options import LARGEST, Named, Positive
from mpsprobe.suggestions import printable

if TYPE_CHECKING:
    from mpsprobe.plugins.registry import Registry
    from mpsprobe_coverage.knowledge.kernels.table import KernelFamily
    from mpsprobe_coverage.scanning.vary import Vary

TORCH = "torch"
GENERATE = "generate"
OF_GENERATE = ("new_tokens", "decoding", "cache", "word_timestamps")
"""The options that ``--phase generate`` alone has."""
ADVISORY, ASSUMED, MEMORY = "advisory", "assumed", "memory"
ALL = "all"
VARIED = ("seq-len", "batch-size", "size", "new-tokens")
VARY_EXAMPLE = "--vary seq-len=1..512"
KNOWN_MACOS = ("12", "13", "14", "15", "26", "27")
"""Versions of macOS with MPS, which came with 12.3. Apple went from 15 to 26; an advisory is about a beta of 27."""
FAILING = ("missing", "fallback", "unsupported", "unknown", ASSUMED, MEMORY, ADVISORY)


WILD = frozenset("*?[")


def is_pattern(name: str) -> bool:
    """Whether a name stands for all that fit it (``bert-*``); a file whose name has such signs is itself."""
    path = name.rpartition(":")[0] or name
    return bool(WILD.intersection(name)) and not os.path.exists(path)  # noqa: PTH110 - of any length


def framework(asked: Sequence[str], registry: Registry) -> str:
    """What the workloads are written in; a name that is wrong is said later.

    Raises:
        UsageError: they are not all written in the same framework: a release is one of one of them.
    """
    found: dict[str, str] = {}
    for name in asked:
        with contextlib.suppress(MpsprobeError):
            found.setdefault(registry.workload_and_owner(name)[0].framework, name)
    if len(found) > 1:
        some = ", ".join(f"{printable(name)} ({one})" for one, name in found.items())
        raise UsageError(f"the workloads are of several frameworks: {some}", "Judge those of each by themselves.")
    return next(iter(found), TORCH)


Command = Callable[..., None]
PHASE_OPTION = click.option(
    "--phase", type=Named("phase", (*PHASES, GENERATE)), default="inference", show_default=True, help="What to run."
)
_OF_THE_MODEL = (
    click.option(
        "--dtype", type=Named("dtype", DTYPES), default="float32", show_default=True, help="Of the parameters."
    ),
    click.option("--batch-size", type=Positive(), help="Samples in a step [default: the workload's own]."),
    click.option("--seq-len", type=Positive(), help="Tokens (frames, …) in a sample [default: the workload's own]."),
    click.option(
        "--size", type=Named("size", SIZES), default="real", show_default=True, help="Of the model; small: few layers."
    ),
    click.option("--autocast", type=Named("dtype", DTYPES[1:]), help="Run the forward pass under autocast."),
)
_OF_SEVERAL = (
    click.option(
        "--workloads", "files", multiple=True, metavar="FILE", help="Judge what FILE names too, one in a line."
    ),
    click.option("--jobs", type=Positive(), help="Most processes for several workloads [default: up to 4]."),
    click.option(
        "--timeout", type=Positive(), default=600, show_default=True, help="Seconds that one of several may take."
    ),
)


def model_options(command: Command) -> Command:
    """The options about the model that every command which judges one has."""
    return reduce(lambda made, option: option(made), reversed(_OF_THE_MODEL), command)


def several_options(command: Command) -> Command:
    """The options of commands that take several workloads."""
    return reduce(lambda made, option: option(made), reversed(_OF_SEVERAL), command)


BACKEND_OPTION = click.option(
    "--backend", metavar="NAME", default="mps", show_default=True, help="Whose kernels; others come with plugins."
)
FORMAT_OPTION = click.option(
    "--format",
    "format_name",
    type=Named("format", ("table", "json")),
    default="table",
    show_default=True,
    help="Of standard output.",
)


def torch_option(default: str, text: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """``--torch VERSION``, with the help ``text``; ``--release`` is the same, for backends of other frameworks."""
    metavar = "VERSION|installed|latest|all"
    return click.option(
        "--torch", "--release", "torch_release", metavar=metavar, default=default, show_default=True, help=text
    )


class MacosVersion(click.ParamType):
    """A version of macOS: ``14``, ``13.2``, ``26.1``."""

    name = "macos"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        text = str(value).strip()
        if not re.fullmatch(rf"({'|'.join(KNOWN_MACOS)})(\.\d{{1,2}}){{0,2}}", text):
            hint = f"Known: {', '.join(KNOWN_MACOS)}, each also with a minor version, such as 14.4."
            raise UsageError(f"'{printable(text)[:40]}' is no version of macOS that can be judged for", hint)
        return text


class ChipName(click.ParamType):
    """A chip with or without its memory: ``m1``, ``m2-pro-16gb``."""

    name = "chip"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from mpsprobe_coverage.knowledge.chips.store import machine_named

        return machine_named(str(value)).name


class MemorySize(click.ParamType):
    """A size of a Mac's memory: ``16GB``, ``64GiB``; in bytes."""

    name = "memory"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        from mpsprobe_coverage.knowledge.chips.store import memory_size

        return value if isinstance(value, int) else memory_size(str(value))


class VaryRange(click.ParamType):
    """What has many values, and which: ``seq-len=1..512``."""

    name = "range"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Vary:
        from mpsprobe_coverage.scanning.vary import Vary

        if isinstance(value, Vary):
            return value
        name, _, numbers = str(value).partition("=")
        if name not in VARIED:
            raise UnknownName(
                "kind of size", name, VARIED, f"There are {', '.join(VARIED)}; for example {VARY_EXAMPLE}."
            )
        found = re.fullmatch(r"(\d{1,40})\.\.(\d{1,40})", numbers, re.ASCII)
        first, last = (int(found[1]), int(found[2])) if found else (0, 0)
        if not 0 < first <= last <= LARGEST:
            most = f"to {LARGEST}" if last > LARGEST else "on"
            raise UsageError(
                f"'{printable(numbers)[:40]}' is no range of whole numbers from 1 {most}",
                f"For example --vary {name}=1..{512 if name == 'seq-len' else 64}.",
            )
        return Vary(name, first, last)


class NotNegative(click.ParamType):
    """A number from 0 on."""

    name = "NUMBER"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            number = float(value)
        except ValueError:
            number = -1.0
        if not 0 <= number < math.inf:
            flag = param.opts[0] if param is not None else "it"
            raise UsageError(f"{flag} takes a number from 0 on, not '{printable(str(value))[:40]}'")
        return number


class VerdictList(click.ParamType):
    """Verdicts with commas between them, and ``advisory`` for known wrong results, ``assumed`` and ``memory``."""

    name = "verdicts"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        parts = value if isinstance(value, (tuple, list)) else str(value).split(",")
        names = tuple(part.strip() for part in parts if part.strip())
        for name in names:
            if name not in FAILING:
                raise UnknownName("verdict", name, FAILING, "There are: " + ", ".join(FAILING) + ".")
        if not names:
            raise UsageError("--fail-on needs at least one verdict", "There are: " + ", ".join(FAILING) + ".")
        return names


CHIP_OPTION = click.option(
    "--chip", type=ChipName(), metavar="NAME", help="The Mac's chip, such as m2 or m2-pro-16gb ('mpsprobe chips list')."
)
MEMORY_OPTION = click.option(
    "--memory", type=MemorySize(), metavar="SIZE", help="The Mac's memory, such as 16GB: whether the workload fits."
)


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
