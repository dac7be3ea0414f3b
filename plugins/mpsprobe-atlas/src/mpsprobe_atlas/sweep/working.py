"""A process of a sweep, which works out one row after the other.

What goes in and comes out is text: names, numbers and packed reports.
"""

from __future__ import annotations

import base64
import importlib.util
import json
import random
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime

from mpsprobe.environment import check_version
from mpsprobe.errors import MpsprobeError
from mpsprobe.plugins.registry import get_registry
from mpsprobe.progress import SilentProgress
from mpsprobe.protocols import RunOptions
from mpsprobe.suggestions import first_line, type_name
from mpsprobe_atlas.answers import pack
from mpsprobe_atlas.store import Key, Row
from mpsprobe_coverage.pool import serve

SEED = 0


def worked_out(key: Key, releases: Sequence[str]) -> Row:
    """The row about ``key``; whatever it raises is in it."""
    started = time.monotonic()
    try:
        row = _answered(key, releases)
    except MpsprobeError as error:
        row = failed(key, error.message, error.hint)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - one workload of many
        row = failed(key, f"{type_name(error)}: {first_line(error)}")
    return replace(row, seconds=round(time.monotonic() - started, 3))


def failed(key: Key, error: str, hint: str | None = None, attempts: int = 1) -> Row:
    """The row of what has no answer."""
    return Row(*key, state="failed", error=error, hint=hint, attempts=attempts, made=_now())


def _now() -> str:
    """The time in UTC, as ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def as_text(row: Row) -> str:
    """A row as JSON; ``from_text`` reads it."""
    answer = None if row.answer is None else base64.b64encode(row.answer).decode()
    return json.dumps({**asdict(row), "answer": answer})


def from_text(text: str | bytes) -> Row:
    """See ``as_text``."""
    fields = json.loads(text)
    answer = fields.pop("answer")
    return Row(**fields, answer=None if answer is None else base64.b64decode(answer))


def _answered(key: Key, releases: Sequence[str]) -> Row:
    check_version("torch", "mpsprobe-coverage", "atlas sweep")
    from mpsprobe_coverage.scanner.releases import release_answers

    workload = get_registry().workload(key.workload)
    options = RunOptions(phase=key.phase, dtype=key.dtype, size=key.size)
    _seed()  # a workload may draw numbers: they are the same whatever was worked out before it
    answers = release_answers(workload, options, releases, SilentProgress())
    documents = {release: answer.report.model_dump(mode="json") for release, answer in answers.items()}
    fits = {release: {str(memory): one for memory, one in answer.fits.items()} for release, answer in answers.items()}
    described = next(iter(documents.values()))["workload"]
    return Row(
        *key,
        state="answered",
        made=_now(),
        architecture=described["architecture"],
        parameters=described["parameters"],
        answer=pack(documents, fits),
    )


def _seed() -> None:
    import torch

    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(SEED)
    random.seed(SEED)
    torch.manual_seed(SEED)


def _prepared(releases: Sequence[str]) -> Callable[[Sequence[str]], str]:
    if importlib.util.find_spec("torch") is not None:
        importlib.import_module("torch")  # most of what a start takes
    return lambda key: as_text(worked_out(Key(*key), releases))


if __name__ == "__main__":
    serve(_prepared)
