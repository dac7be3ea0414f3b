"""``mpsprobe import FILE``."""

from __future__ import annotations

import os
from pathlib import Path

import click

from mpsprobe import exporting
from mpsprobe.options import EXPORTER_OPTION, OUTPUT_OPTION, File, Positive
from mpsprobe.plugins.registry import get_registry
from mpsprobe.progress import make_progress

MEGABYTE = 1 << 20


@click.command(name="import")
@click.argument("file", type=File())
@click.option(
    "--limit",
    type=Positive(),
    default=1_000_000,
    show_default=True,
    help="Events that the report's trace keeps; operators, modules and steps are of all of them.",
)
@EXPORTER_OPTION
@OUTPUT_OPTION
def import_trace(file: str, limit: int, format_name: str | None, output: str | None) -> None:
    """Make a report of a trace that torch.profiler wrote, on any device: FILE.pt.trace.json or .json.gz.

    Also of one that TensorFlow's profiler wrote: HOST.xplane.pb, or HOST.trace.json.gz.

    \b
    mpsprobe import run.pt.trace.json
    mpsprobe import run.pt.trace.json.gz -o run.json
    mpsprobe import run.pt.trace.json --format tensorboard -o logs
    mpsprobe import logs/plugins/profile/2026_11_22_20_11_38/host.xplane.pb
    """
    registry = get_registry()
    name = exporting.choose(registry, format_name, output, "profile")  # before the trace is read

    from mpsprobe_devices.traces.report import import_trace as read

    path, bytes_read = Path(file), 0

    def tell(count: int) -> None:
        nonlocal bytes_read
        for _ in range(bytes_read // MEGABYTE, (bytes_read + count) // MEGABYTE):
            progress.advance()
        bytes_read += count

    with make_progress() as progress:
        size = path.stat().st_size // MEGABYTE if os.path.isfile(path) else 0  # noqa: PTH113 - of any length
        progress.start(size or None, "reading the trace (MB)")
        report = read(path, limit, tell)
    exporting.write(registry, name, report, output)
