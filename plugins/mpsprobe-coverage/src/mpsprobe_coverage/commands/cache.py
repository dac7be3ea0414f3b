"""``mpsprobe cache info | clear``."""

from __future__ import annotations

import time

import click

from mpsprobe.answers import folder
from mpsprobe.commands import OpenGroup
from mpsprobe.errors import OutputError
from mpsprobe.options import FORMAT_OPTION
from mpsprobe.streams import write_json, write_stdout
from mpsprobe.suggestions import printable
from mpsprobe_exporters.document import Document
from mpsprobe_exporters.plain_text import plural
from mpsprobe_exporters.terminal.drawing import show
from mpsprobe_exporters.units import byte_size

PIPE_WIDTH = 10_000  # columns: nothing is wrapped where no terminal is


@click.group(cls=OpenGroup, default="info")
def cache() -> None:
    """Answers that were worked out once: where they are kept, and how to be rid of them.

    'mpsprobe coverage' and 'mpsprobe fit' keep their answers, and give them again as long as nothing is different that
    they depend on. --no-cache works one out anew, MPSPROBE_NO_CACHE=1 all of them.
    """


@cache.command(short_help="How many answers there are, and where.")
@FORMAT_OPTION
def info(format_name: str) -> None:
    """How many answers are kept, how large they are, of when, and in which folder.

    \b
    mpsprobe cache info
    mpsprobe cache info --format json
    """
    answers = folder.kept()
    size = sum(answer.size for answer in answers)
    times = [
        time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(answer.written)) for answer in (*answers[:1], *answers[-1:])
    ]
    if format_name == "json":
        write_json(
            {
                "folder": folder.answers_folder(),
                "answers": len(answers),
                "size_bytes": size,
                "oldest": times[0] if times else None,
                "newest": times[-1] if times else None,
                "most_answers": folder.MOST_ENTRIES,
                "most_bytes": folder.MOST_BYTES,
            }
        )
        return
    days = list(dict.fromkeys(when.partition("T")[0] for when in times))
    most = f"{folder.MOST_ENTRIES:,} answers and {byte_size(folder.MOST_BYTES)}; then the oldest go"
    kept = ", of ".join([_counted(len(answers), size), *([" to ".join(days)] if days else [])])
    lines = [printable(folder.answers_folder()), f"At most {most}"]
    show(Document("Cache", headline=kept, lines=lines), PIPE_WIDTH)


@cache.command(short_help="Delete every answer.")
def clear() -> None:
    """Delete every answer that is kept. What is compiled for 'mpsprobe run' stays.

    \b
    mpsprobe cache clear
    """
    try:
        count, size = folder.clear()
    except OSError as error:
        where = printable(folder.answers_folder())
        raise OutputError(f"cannot delete what is in {where}: {error.strerror}", "Delete the folder.") from error
    write_stdout(f"deleted {_counted(count, size)}")


def _counted(count: int, size: int) -> str:
    return f"{plural(count, 'answer')}, {byte_size(size)}"
