"""``mpsprobe kernels audit``: the verdicts against what PyTorch's own tests expect of MPS."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from mpsprobe.errors import MpsprobeError, UnknownName, UsageError
from mpsprobe.options import Named, Positive
from mpsprobe.output import check_writable, deliver
from mpsprobe.progress import make_progress

if TYPE_CHECKING:
    from mpsprobe_coverage.knowledge.judging.lists import Lists
    from mpsprobe_tables.audit.result import Audit

BELOW = 1
FILE_WIDTH = 120  # columns where no terminal is
MODES = ("none", "neighbours", "both")


def _dtypes(_context: click.Context, _option: click.Parameter, value: str | None) -> tuple[str, ...] | None:
    """Names with commas between them, each once. Raises UsageError: none, or one that no test of PyTorch runs."""
    if value is None:
        return None
    from mpsprobe_tables.expectations import TESTED_DTYPES

    names = tuple(dict.fromkeys(part.strip() for part in value.split(",") if part.strip()))
    for name in names:
        if name not in TESTED_DTYPES:
            known = sorted(TESTED_DTYPES)
            raise UnknownName("dtype", name, known, "There are: " + ", ".join(known) + ".")
    if not names:
        raise UsageError("--dtype needs at least one dtype", "For example --dtype float32,int64")
    return names


@click.command(short_help="Compare the verdicts with PyTorch's own expectations.")
@click.option(
    "--torch",
    "torch_release",
    metavar="VERSION|installed|latest|all",
    default="installed",
    show_default=True,
    help="The release whose expectations to compare the verdicts with; 'all' is every release with a list.",
)
@click.option("--dtype", "dtypes", callback=_dtypes, metavar="DTYPE,…", help="Only these dtypes.  [default: all ten]")
@click.option("--entry", "entries", metavar="NAME", multiple=True, help="Only this OpInfo entry; may be repeated.")
@click.option(
    "--module",
    "modules",
    metavar="NAME",
    multiple=True,
    help="Only this module; may be repeated.  [default: all, and none with --entry or --dtype]",
)
@click.option(
    "--lists",
    type=Named("mode", MODES),
    default="both",
    show_default=True,
    help="Judge by mechanism alone (none), with the neighbouring releases' lists, or both.",
)
@click.option(
    "--format",
    "format_name",
    type=Named("format", ("table", "markdown")),
    default="table",
    show_default=True,
    help="Of the output.",
)
@click.option("-o", "--output", metavar="FILE", help="Write here instead of to standard output.")
@click.option("--jobs", type=Positive(), help="Processes; each takes about 1 GB.  [default: one for each CPU]")
@click.option(
    "--fail-under",
    type=click.FloatRange(0, 1),
    metavar="SHARE",
    help="Exit with 1 if the recall or precision of a row lies below, for example 0.9.",
)
def audit(
    torch_release: str,
    dtypes: tuple[str, ...] | None,
    entries: tuple[str, ...],
    modules: tuple[str, ...],
    lists: str,
    format_name: str,
    output: str | None,
    jobs: int | None,
    fail_under: float | None,
) -> None:
    """Run PyTorch's operator database on the virtual device, and compare with what PyTorch expects to fail on a Mac.

    Every OpInfo entry of the installed torch with every sample, forward and gradient, dtype by dtype. Printed are
    recall and precision and each disagreement with its cause. The lists come with this package, from 2.8.0 on; that
    of the release under judgement is no source of the verdicts that it judges. It takes less than a minute for each
    dtype on two CPUs. Then samples that no test has, and every module of PyTorch's database of modules, in train and
    eval mode, against the marks of the release, from 2.1.0 on; that takes two minutes more.

    \b
    mpsprobe kernels audit
    mpsprobe kernels audit --dtype float32 --entry linalg.eig --entry normal
    mpsprobe kernels audit --dtype float32 --entry addmm --module nn.Linear --module nn.Conv3d
    mpsprobe kernels audit --torch all --format markdown -o audit.md
    """
    releases = _releases(torch_release)
    if output is not None:
        check_writable(output)
    from mpsprobe_tables.audit.entries import DTYPES, entry_named, module_named
    from mpsprobe_tables.audit.result import run_audit
    from mpsprobe_tables.audit.running import default_jobs

    for name in entries:
        entry_named(name)
    for name in modules:
        module_named(name)
    whole = not (entries or dtypes or modules)
    chosen = modules if modules or whole else None
    modes: tuple[Lists, ...] = ("none", "neighbours") if lists == "both" else (lists,)  # type: ignore[assignment]
    with make_progress() as progress:
        jobs = jobs or default_jobs()
        audited = run_audit(releases, dtypes or DTYPES, modes, entries, jobs, progress, chosen, whole)
    if not audited.pairs:
        raise UsageError("no test runs these entries with these dtypes", "Leave --dtype out to see which ones do.")
    command = " ".join(
        ("mpsprobe kernels audit", *((f"--torch {torch_release}",) if torch_release != "installed" else ()))
    )
    deliver(_rendered(audited, format_name, command, terminal=output is None), output)
    context = click.get_current_context()
    if audited.internal:
        raise MpsprobeError(
            f"the virtual device raised where the CPU does not, in {len(audited.internal)} cases: "
            f"{audited.internal[0]}",
            "This is a mistake of mpsprobe: please report it.",
        )
    if fail_under is not None and audited.lowest < fail_under:
        context.exit(BELOW)


def _releases(text: str) -> list[str]:
    """``--torch`` as releases with expectations. Raises UsageError: an unknown release, or one without expectations."""
    from mpsprobe_coverage.knowledge.kernels.mps import MPS_FAMILY
    from mpsprobe_coverage.knowledge.kernels.releases import INSTALLED, installed_release
    from mpsprobe_tables.expectations import expectation_releases

    known = expectation_releases()
    if text == "all":
        return list(known)
    release = installed_release() if text == INSTALLED else MPS_FAMILY.resolve(text)
    if release not in known:
        raise UsageError(
            f"torch {release} has no list of expectations, so there is nothing to hold its verdicts against",
            f"There are lists for {', '.join(known)}: mpsprobe kernels audit --torch {known[-1]}",
        )
    return [release]


def _rendered(audited: Audit, format_name: str, command: str, *, terminal: bool) -> str:
    if format_name == "markdown":
        from mpsprobe_tables.audit.page import page

        return page(audited, f"{command} --format markdown")
    from mpsprobe_exporters.terminal.drawing import text_of
    from mpsprobe_exporters.terminal.screen import Screen, is_terminal, on_terminal
    from mpsprobe_tables.audit.tables import document

    screen = on_terminal() if terminal and is_terminal() else Screen(FILE_WIDTH)
    return text_of(document(audited), screen, everything=True)
