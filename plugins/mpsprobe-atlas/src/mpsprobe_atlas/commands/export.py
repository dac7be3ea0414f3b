"""``mpsprobe atlas export``."""

from __future__ import annotations

from pathlib import Path

import click

from mpsprobe.errors import UsageError
from mpsprobe.options import Named
from mpsprobe.output import check_folder, check_writable
from mpsprobe_atlas.commands.choosing import STORE_OPTION, chosen

PARQUET = "parquet"


@click.command()
@STORE_OPTION
@click.option("--to", "target", type=Named("format", (PARQUET, "json")), required=True, help="parquet or json.")
@click.option(
    "-o", "--output", metavar="PATH", help="A folder for Parquet, a file for JSON [default: standard output]."
)
@click.option("--native", is_flag=True, help="Also the operators that run on the GPU: many more rows.")
def export(store: str | None, target: str, output: str | None, native: bool) -> None:
    """The atlas as rows, for pandas, DuckDB and their like.

    'runs' has a row for each workload, phase, dtype and release: whether it runs, memory, known wrong results.
    'operators' has one for each of their operators that is not native, with shapes, dtypes and calls.

    \b
    mpsprobe atlas export --to parquet -o atlas
    mpsprobe atlas export --to json --store atlas.sqlite -o atlas.json
    """
    from mpsprobe_atlas.exports import write_json, write_parquet

    path = None if output == "-" else output
    if target == PARQUET and path is None:
        raise UsageError("Parquet needs a folder", "Name it: -o FOLDER.")
    with chosen(store) as opened:
        if target == PARQUET and path is not None:
            check_folder(path)
            for made in write_parquet(opened, Path(path), native=native):
                click.echo(made, err=True)
            return
        if path is not None:
            check_writable(path)
        write_json(opened, path, native=native)
