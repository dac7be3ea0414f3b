"""``mpsprobe run SCRIPT``."""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext, redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mpsprobe.commands import Command
from mpsprobe.environment import check_version
from mpsprobe.errors import UsageError
from mpsprobe.options import ANSWER, EVERYTHING_OPTION, EXPORTER_OPTION, QUIET_OPTION, File, Named, often, rare
from mpsprobe.plugins.registry import get_registry
from mpsprobe.streams import QUIET, note
from mpsprobe.suggestions import printable
from mpsprobe_coverage.commands import options as flags
from mpsprobe_coverage.commands.showing import Showing

if TYPE_CHECKING:
    from mpsprobe_coverage.programs.parent import Ended

DEVICES = ("virtual", "mps")
VALUES = ("real", "none")
HOW = "How it runs"
COMPUTING = {
    "with_bugs": "--with-bugs computes on", "as_cuda": "--as-cuda leads to", "compiles": "--compile runs kernels on",
}  # fmt: skip
SELDOM_A_PROGRAMS = ("--torch", "--macos", "--chip", "--with-bugs", "--as-cuda", "--fail-on", "--keep-going")
WRONG_USE = 2  # the exit code of argparse and click; the program has said why


@click.command(cls=Command, context_settings={"allow_interspersed_args": False})
@often(HOW, "-m", "as_module", is_flag=True, help="SCRIPT is the name of a module, as for python -m.")
@often(HOW, "--device", type=Named("device", DEVICES), default="virtual", help="Where it runs\f; mps watches a Mac's.")
@often(
    HOW, "--values", type=Named("kind of values", VALUES), default="real",
    help="Of tensors\f; 'none' runs with shapes only, for what does not fit this machine.",
)  # fmt: skip
@often(
    HOW,
    "--as-cuda",
    is_flag=True,
    help="Where it asks for CUDA\f, give it the MPS device, and list what has to change.",
)
@rare(HOW, "--compile", "compiles", is_flag=True, help="Let torch.compile make its Metal kernels, and run them here.")
@rare(
    HOW, "--keep-going/--no-keep-going", default=True,
    help="Go on where a Mac refuses, so that the report has everything; or raise there, as on a Mac.",
)  # fmt: skip
@often(HOW, "--with-bugs", is_flag=True, help="Compute known wrong results wrongly too\f, as the release does.")
@rare(HOW, "--no-lines", is_flag=True, help="Do not look for the source lines of calls, which takes less time.")
@rare(HOW, "--build", is_flag=True, help="Build the native device now, not at the first program.")
@flags.torch_option("installed", "PyTorch; also latest\f: the release to judge.", "VERSION")
@flags.mac_options(memory=False)
@EXPORTER_OPTION
@often(ANSWER, "-o", "--output", type=File(), help="Write the report to FILE [default: standard error].")
@flags.EXPLAIN_OPTION
@EVERYTHING_OPTION
@QUIET_OPTION
@flags.gate_options("'unknown': also where a process that it started was not watched")
@click.argument("program", nargs=-1, type=File(), metavar="SCRIPT [ARGUMENTS]…")
def run(
    program: tuple[str, ...],
    as_module: bool,
    build: bool,
    **settings: Any,
) -> None:
    """Run the program SCRIPT, unchanged, and report what MPS does with each operator that it calls.

    Everything after SCRIPT belongs to the program, and so do standard output and the exit code; the report
    goes to standard error, or to FILE. No Mac is needed: there is a virtual MPS device, which computes on the CPU.

    \b
    mpsprobe run train.py --epochs 1
    mpsprobe run -m pytest tests/
    mpsprobe run --torch 2.6.0 -o report.html train.py
    mpsprobe run --fail-on missing,unsupported train.py
    """
    check_version("torch", "mpsprobe-coverage", "run")
    if build:
        from mpsprobe_coverage.devices.compiling import DEVICE

        note(f"the native device is built: {DEVICE.compile()}")
        if not program:
            return
    check_program(program, as_module)
    showing = Showing.of_flags(settings)
    showing.choose("coverage", program[0])
    if flag := next((part for part in program[1:] if part.partition("=")[0] in SELDOM_A_PROGRAMS), None):
        note(f"mpsprobe: {flag.partition('=')[0]} goes to the program; for the report, write it before SCRIPT")
    if sys.stderr is not None and sys.stderr.isatty():  # torch takes seconds, and the program may print late
        note(f"mpsprobe: running {printable(program[0])}")
    ended = ran(program, as_module, **settings)
    if ended.report is None:
        click.echo(f"mpsprobe: no report: {ended.why}", err=True)
        ended.leave()
    written = None
    used_wrongly = ended.code == WRONG_USE and not (ended.report.operators or ended.report.failure)
    if showing.output is not None or not (QUIET.get() or used_wrongly):
        if showing.output is None and showing.exporter == "table":
            click.echo("-- mpsprobe --", err=True)
        # Standard output is the program's.
        with redirect_stdout(sys.stderr) if showing.output is None else nullcontext():
            written = showing.show(ended.report)
    if ended.code == 0:
        sys.exit(showing.exit_code(ended.report, written))
    if written is not None:
        how = f"exit code {ended.code}" if ended.code > 0 else f"end by signal {-ended.code}"
        click.echo(f"the {how} is the program's own", err=True)
    ended.leave()


def ran(
    program: tuple[str, ...],
    as_module: bool,
    *,
    torch_release: str = "installed",
    no_lines: bool = False,
    explain: bool = False,
    **settings: Any,
) -> Ended:
    """How ``program`` ended, with its report; of the other flags, ``settings``, those that are left out are as usual.

    Raises:
        UsageError: there is no such program, or flags that do not go together.
        MpsprobeError: the device cannot be opened.
    """
    from mpsprobe_coverage.knowledge.kernels.mps import MPS_FAMILY
    from mpsprobe_coverage.programs import parent

    check_program(program, as_module)
    targets = flags.releases(torch_release, MPS_FAMILY)
    if len(targets) != 1:
        raise UsageError("a program is run on one torch release", "Name one with --torch.")
    if settings.get("device") == "mps" and (targets != ["installed"] or settings.get("macos")):
        raise UsageError("--device mps observes what is installed here", "Leave out --torch and --macos.")
    for flag, does in COMPUTING.items():
        if settings.get(flag) and (settings.get("device") == "mps" or settings.get("values") == "none"):
            raise UsageError(f"{does} the virtual device, with values", "Leave out --device and --values.")
    registry = get_registry()
    shown = f"-m {program[0]}" if as_module else program[0]
    registry.announce("mpsprobe_before_run", workload=shown, phase="program")
    ended = parent.run(program, as_module, torch=targets[0], lines=not no_lines, **settings)
    if ended.report is None:
        return ended
    report = ended.report.model_copy(update={"explained": explain})
    registry.announce("mpsprobe_after_run", workload=shown, phase="program", report=report.model_dump(mode="json"))
    return replace(ended, report=report)


def check_program(program: tuple[str, ...], as_module: bool) -> None:
    """Raise a ``UsageError`` where there is no such program, or it is named as a workload."""
    if not program:
        raise UsageError("what should be run?", "Name a script, or a module after -m: mpsprobe run train.py --epochs 1")
    name = program[0]
    shown, path = printable(name), Path(name)
    # Of any length: a Path raises where a name is too long.
    if as_module or os.path.isfile(path) or os.path.isfile(path / "__main__.py"):  # noqa: PTH113
        return
    file, colon, _ = name.rpartition(":")
    if colon and file.endswith(".py"):
        raise UsageError(
            f"'{shown}' names a function, and a program is run whole",
            f"For the model that it returns: mpsprobe coverage {shown}. For the script: mpsprobe run {printable(file)}",
        )
    if os.path.isdir(path):  # noqa: PTH112
        raise UsageError(f"'{shown}' is a folder without a __main__.py", "Name a script in it.")
    hint = "Check the path."
    if name.replace(".", "_").isidentifier() and path.suffix != ".py":
        hint += f" To run a module: mpsprobe run -m {shown}"
    raise UsageError(f"there is no script '{shown}'", hint)
