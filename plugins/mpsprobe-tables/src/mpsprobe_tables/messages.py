"""What the MPS code of each release raises with, and what was decided of it.

The messages of a release are next to PyTorch's expectations, ``torch-VERSION.messages``: what differs from the release
before. Each of them is used by a guard (``markers.toml`` of mpsprobe-coverage), or ``decisions.toml`` says why not.
"""

from __future__ import annotations

import functools
import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.resources import files

from mpsprobe.errors import TableError
from mpsprobe_coverage.knowledge.kernels.markers import MARKER_STRINGS
from mpsprobe_tables.own_files import REINSTALL, OwnFiles


@dataclass(frozen=True, slots=True)
class Messages:
    """Messages of one release: each with the names of the source files that raise it."""

    release: str
    found: Mapping[str, str] = field(default_factory=dict)

    def markers(self) -> frozenset[str]:
        """The markers that one of them shows (``markers.toml``)."""
        return frozenset(
            marker
            for marker, parts in MARKER_STRINGS.items()
            if any(part in text for part in parts for text in self.found)
        )

    def undecided(self) -> Iterator[str]:
        """Those that no guard uses and no decision names, as ``file: message``."""
        known = {part for parts in MARKER_STRINGS.values() for part in parts}
        for text, source in self.found.items():
            if not any(part in text for part in known) and not any(decision.holds(text) for decision in decisions()):
                yield f"{source}: {text}"


@dataclass(frozen=True, slots=True)
class Decision:
    """Messages that are no guard, for one reason."""

    why: str  # the reason, a sentence
    messages: tuple[str, ...]  # whole messages; ``*`` stands for any text

    def holds(self, text: str) -> bool:
        """Whether the decision is about this message."""
        return any(pattern.fullmatch(text) for pattern in map(_compiled, self.messages))


@functools.cache
def decisions() -> tuple[Decision, ...]:
    """All decisions, in the order of the file."""
    listed = tomllib.loads(files("mpsprobe_tables").joinpath("decisions.toml").read_text("utf-8"))
    return tuple(Decision(decision["why"], tuple(decision["messages"])) for decision in listed["decision"])


@functools.cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(re.escape(pattern).replace(r"\*", ".*"), re.DOTALL)


def decode(data: bytes, name: str, base: Messages | None) -> Messages:
    """The file of a release, read back on top of that of the release before. Raises TableError: it is damaged."""
    try:
        read, entries = json.loads(data), {} if base is None else dict(base.found)
        for text in read["gone"]:
            del entries[text]
        return Messages(read["release"], dict(sorted({**entries, **read["new"]}.items())))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise TableError(f"the data file {name} is damaged: {error}", REINSTALL) from error


def encode(messages: Messages, base: Messages | None) -> bytes:
    """The file of a release, on top of that of the release before."""
    before = {} if base is None else base.found
    new = {text: source for text, source in messages.found.items() if before.get(text) != source}
    content = {
        "release": messages.release,
        "base": None if base is None else base.release,
        "gone": sorted(before.keys() - messages.found.keys()),
        "new": dict(sorted(new.items())),
    }
    return (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode()


FILES = OwnFiles(".messages", "messages", decode, encode)
message_releases, load_messages = FILES.releases, FILES.load
