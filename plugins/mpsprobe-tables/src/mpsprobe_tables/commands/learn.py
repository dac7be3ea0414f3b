"""``mpsprobe kernels learn``: what the lists of PyTorch's own tests say that MPS refuses, computed again."""

from __future__ import annotations

import os

import click

from mpsprobe.output import check_writable, write_atomically, write_stdout
from mpsprobe.progress import make_progress

DIFFERENT = 1
MOST_JOBS = 8


@click.command(short_help="Find out again what the lists of PyTorch's tests say that kernels refuse.")
@click.option("-o", "--output", metavar="FILE", help="Write the data file here.")
@click.option("--check", is_flag=True, help="Compare with the file of this package; exit with 1 on a difference.")
@click.option(
    "--jobs",
    type=click.IntRange(1, MOST_JOBS),
    default=min(2, os.cpu_count() or 1),
    show_default=True,
    help="Processes; each takes about 1 GB.",
)
def learn(output: str | None, check: bool, jobs: int) -> None:
    """Hold the lists of entries that PyTorch expects to fail on MPS against what these entries call.

    Every entry of the installed torch's OpInfo database runs on the virtual device of each release that has a list,
    with each dtype. An operator that only failing entries call with a dtype, or with a dtype and arguments such as
    accumulate=True, counts as refusing it; what passing entries call is taken. The result is the data file
    lists.refusals of this package. It takes some minutes.

    \b
    mpsprobe kernels learn --check
    mpsprobe kernels learn -o lists.refusals
    """
    from mpsprobe_coverage.knowledge.judging.lists import FILE, decode
    from mpsprobe_coverage.knowledge.kernels.releases import data_folder
    from mpsprobe_tables.audit.learn import learn as find

    if output is not None:
        check_writable(output)
    with make_progress() as progress:
        data = find(progress, jobs)
    if output is not None:
        write_atomically(output, data)
    lines = []
    for entry in decode(data):
        refused, taken = (sum(map(len, part.values())) for part in (entry.refused, entry.accepted))
        weaker = sum(map(len, entry.unclaimed.values()))
        lines.append(
            f"{', '.join(entry.releases)}: {refused} refused, {weaker} not claimed, {taken} taken, counted by "
            "operator, dtypes and flags"
        )
    shipped = data_folder() / FILE
    same = shipped.is_file() and shipped.read_bytes() == data
    lines.append(f"{'the same as' if same else 'NOT'} the file of this package")
    write_stdout("\n".join(lines))
    if check and not same:
        click.get_current_context().exit(DIFFERENT)
