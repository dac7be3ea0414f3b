"""``mpsprobe upgrade OLD NEW [WORKLOAD…]``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import click
from packaging.version import Version

from mpsprobe import exporting, options
from mpsprobe.answers.question import Question, cache_option
from mpsprobe.commands import Command
from mpsprobe.errors import UsageError, WorkloadError
from mpsprobe.options import check_training
from mpsprobe.plugins.registry import get_registry
from mpsprobe.progress import make_progress
from mpsprobe.protocols import RunOptions
from mpsprobe.schemas import JudgedWorkload
from mpsprobe.suggestions import printable
from mpsprobe_coverage.commands import options as flags
from mpsprobe_coverage.commands import several
from mpsprobe_coverage.commands.judge import Judging

if TYPE_CHECKING:
    from mpsprobe_coverage.knowledge.kernels.table import KernelTable


@click.command(cls=Command)
@click.argument("old", metavar="OLD", shell_complete=flags.complete_release)
@click.argument("new", metavar="NEW", shell_complete=flags.complete_release)
@options.workloads_argument
@flags.PHASE_OPTION
@flags.model_options
@flags.mac_options("The macOS that the Mac has [default: any].")
@options.EXPORTER_OPTION
@options.OUTPUT_OPTION
@options.EVERYTHING_OPTION
@options.QUIET_OPTION
@flags.ATLAS_OPTION
@cache_option("upgrade")
@flags.several_options
@options.AUTOCAST_OPTION
def upgrade(
    old: str,
    new: str,
    names: tuple[str, ...],
    files: tuple[str, ...],
    jobs: int | None,
    timeout: int,
    format_name: str | None,
    output: str | None,
    everything: bool,
    atlas: bool | None,
    no_cache: bool,
    **run_options: Any,
) -> None:
    """What changes for MPS from torch release OLD to NEW; either may be 'installed' or 'latest'.

    Kernels gained and lost, what leaves the CPU, the oldest macOS, known wrong results fixed and new: in an instant,
    from the kernel tables. With WORKLOADs, what changes for each of them, call by call.

    \b
    mpsprobe upgrade 2.6.0 latest
    mpsprobe upgrade 2.6.0 2.15.0 bert-base whisper-tiny
    mpsprobe upgrade installed latest my_model.py:make --phase training --macos 14
    mpsprobe upgrade 2.6.0 2.15.0 --workloads models.txt -o upgrade.html
    """
    options = RunOptions(**run_options)
    check_training(options, options.phase == "training")
    registry = get_registry()
    from mpsprobe_coverage.knowledge.kernels.mps import MPS_FAMILY

    tables = MPS_FAMILY.target(old), MPS_FAMILY.target(new)
    releases = [table.release for table in tables]
    if releases[0] == releases[1]:
        raise UsageError(f"both are torch {releases[0]}", "Name the release that you have, and the one to change to.")
    chosen = exporting.choose(registry, format_name, output, "upgrade")
    mac, options = options, _judged_for(options, tables)
    wanted = several.names(names, files, registry) if names or files else []
    if wanted and flags.framework(wanted, registry) != flags.TORCH:
        raise UsageError("upgrade is about torch", "Name workloads of torch.")
    rows: list[JudgedWorkload] = []
    if wanted:
        asked = {**asdict(options), "torch_release": ",".join(releases)}
        questions = [Question("coverage", name, asked, cached=not no_cache) for name in wanted]
        with make_progress() as progress:
            judging = Judging(options, releases)
            judged = several.judge(questions, judging, atlas, jobs or several.usual_jobs(), timeout, progress)
        if not judged.complete:
            raise KeyboardInterrupt
        rows = judged.workloads
    from mpsprobe_coverage.reporting.upgrade import upgrade_report

    report = upgrade_report(*tables, rows, mac)
    exporting.write(registry, chosen, report, output, everything)
    failed = [printable(row.name) for row in rows if row.error is not None]
    if failed:
        raise WorkloadError(f"{len(failed)} of {len(rows)} workloads could not be judged: {', '.join(failed[:3])}")


def _judged_for(options: RunOptions, tables: Sequence[KernelTable]) -> RunOptions:
    """``options`` for the workloads: without a macOS on which one of the releases has no GPU, which the report says."""
    minima = [table.macos_minimum for table in tables if table.macos_minimum]
    too_old = options.macos and any(Version(options.macos) < Version(minimum) for minimum in minima)
    return replace(options, macos=None) if too_old else options
