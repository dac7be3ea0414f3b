"""``mpsprobe atlas sweep``."""

from __future__ import annotations

import sys
from collections.abc import Generator, Sequence

import click

from mpsprobe.declarations import DTYPES, PHASES, SIZES
from mpsprobe.errors import UsageError
from mpsprobe.options import Named, Names, Positive
from mpsprobe.plugins.registry import get_registry
from mpsprobe.progress import make_progress
from mpsprobe.suggestions import printable, without_home
from mpsprobe_atlas.store import Asked, Row
from mpsprobe_atlas.sweep.sweeping import Outcome, Plan, sweep_into
from mpsprobe_coverage.commands.options import memory_bytes, releases
from mpsprobe_coverage.commands.several import names as names_asked
from mpsprobe_coverage.commands.several import usual_jobs
from mpsprobe_coverage.knowledge.kernels.mps import MPS_FAMILY

GENERATE = "generate"
MOST_SHOWN = 10  # failed rows after a sweep; the store has all of them


@click.command()
@click.argument("names", nargs=-1, metavar="[WORKLOAD]...")
@click.option("--workloads", "files", multiple=True, metavar="FILE", help="Sweep what FILE names too, one in a line.")
@click.option("-o", "--output", default="atlas.sqlite", show_default=True, metavar="FILE", help="The store.")
@click.option(
    "--phase",
    "phases",
    type=Names(),
    default="inference,training",
    show_default=True,
    metavar="PHASE,…",
    help="Of inference, training and generate.",
)
@click.option(
    "--dtype",
    "dtypes",
    type=Names(),
    default="float32",
    show_default=True,
    metavar="DTYPE,…",
    help="Of the parameters: float32, float16, bfloat16.",
)
@click.option(
    "--size", type=Named("size", SIZES), default="real", show_default=True, help="Of the models; small: few layers."
)
@click.option(
    "--torch", "torch_release", default="all", show_default=True, metavar="VERSION,…|all", help="The releases to judge."
)
@click.option("--jobs", type=Positive(), help="Processes side by side [default: up to 4].")
@click.option("--timeout", type=Positive(), default=1800, show_default=True, help="Seconds that one row may take.")
@click.option(
    "--memory-limit",
    type=memory_bytes,
    metavar="SIZE",
    help="What one process may take [default: 3/4 of the machine's memory, for all together].",
)
@click.option(
    "--scheduler", metavar="ADDRESS", help="Give the work to the workers of this Dask cluster (tcp://host:8786)."
)
@click.option("--again", is_flag=True, help="Work out again what failed.")
def sweep(
    names: tuple[str, ...],
    files: tuple[str, ...],
    output: str,
    phases: tuple[str, ...],
    dtypes: tuple[str, ...],
    size: str,
    torch_release: str,
    jobs: int | None,
    timeout: int,
    memory_limit: int | None,
    scheduler: str | None,
    again: bool,
) -> None:
    """Judge many workloads against every torch release, and keep all reports in one file.

    Each row, one workload in one phase and dtype, is worked out in a process of its own, with a limit of time and one
    of memory, and is durable when it is done. Start the same sweep again after it was stopped, and it goes on where it
    was. After a change of rules, or with a new release, it works out what these touch. Nothing is downloaded.

    \b
    mpsprobe atlas sweep 'bert-*' resnet50
    mpsprobe atlas sweep '*' 'hf:*' --jobs 4 -o atlas.sqlite
    mpsprobe atlas sweep --workloads models.txt --phase inference --torch 2.12.1,2.13.0
    mpsprobe atlas sweep 'hf:*' --scheduler tcp://10.0.0.1:8786
    """
    registry = get_registry()
    if not (names or files):
        raise UsageError("what should be swept?", "Name workloads, or a pattern such as 'hf:*'.")
    plan = Plan(
        names=tuple(map(without_home, names_asked(names, files, registry))),
        phases=_known("phase", phases, (*PHASES, GENERATE)),
        dtypes=_known("dtype", dtypes, DTYPES),
        size=size,
        releases=tuple(MPS_FAMILY.target(release).release for release in releases(torch_release, MPS_FAMILY)),
    )
    keys = plan.keys(registry)

    def rows(left: Sequence[Asked]) -> Generator[Row]:
        if scheduler is not None:
            from mpsprobe_atlas.sweep.cluster import Cluster

            with Cluster(scheduler, timeout, memory_limit) as cluster:
                yield from cluster.rows(left)
            return
        from mpsprobe_atlas.sweep.rows import rows_of, usual_memory
        from mpsprobe_coverage.pool import Limits

        count = min(jobs or usual_jobs(), len(keys))
        yield from rows_of(left, Limits(timeout, memory_limit or usual_memory(count)), count)

    with make_progress() as progress:
        outcome = sweep_into(output, plan.about(), keys, rows, progress, again=again)
    _say(outcome, output)
    if not outcome.complete:
        raise KeyboardInterrupt


def _known(kind: str, asked: tuple[str, ...], known: tuple[str, ...]) -> tuple[str, ...]:
    named = Named(kind, known)
    return tuple(dict.fromkeys(named.convert(name, None, None) for name in asked))


def _say(outcome: Outcome, output: str) -> None:
    done = outcome.answered + len(outcome.failed)
    lines = [f"{printable(output)}: {outcome.answered} of {done} rows have an answer ({outcome.seconds:.0f} s)"]
    if outcome.known:
        lines.append(f"{outcome.known} of them were there before")
    lines += [
        f"failed: {printable(row.workload)} ({row.phase}): {printable(row.error or '')}"
        for row in outcome.failed[:MOST_SHOWN]
    ]
    if len(outcome.failed) > MOST_SHOWN:
        lines.append(f"and {len(outcome.failed) - MOST_SHOWN} more")
    lines += dict.fromkeys(printable(row.hint) for row in outcome.failed[:MOST_SHOWN] if row.hint)
    if outcome.failed:
        lines.append("The same sweep with --again works out again what failed.")
    click.echo("\n".join(lines), file=sys.stderr)
