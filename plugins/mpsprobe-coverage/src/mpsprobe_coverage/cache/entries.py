"""An answer as a file: compressed JSON, with what it depends on. A file that is not one is no answer."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from mpsprobe_coverage.cache import folder
from mpsprobe_coverage.cache.evidence import Evidence
from mpsprobe_coverage.cache.surroundings import digest

MAGIC = b"mpsprobe answer 1\n"
LARGEST_TEXT = 200 * 2**20
"""Bytes that a file may unpack to."""
MOST_TEXTS = 8
# What a terminal draws: line ends, and colours. Nothing else of a file may reach it.
UNPRINTABLE = re.compile(r"(?!\n)[\x00-\x1f\x7f-\x9f]")
COLOR = re.compile(r"\x1b\[[0-9;]*m")


class Answer(NamedTuple):
    """What was worked out once.

    Attributes:
        question: all that was asked, as JSON has it.
        made: when it was worked out, in UTC: ``2026-11-22T19:30:00Z``.
        report: the report, as JSON.
        evidence: what it depends on besides the question and the surroundings.
        texts: what exporters wrote of it, by the digest of how it was shown, the newest last; with the exit code.
    """

    question: Mapping[str, Any]
    made: str
    report: str
    evidence: Evidence = Evidence()
    texts: Mapping[str, tuple[str, int]] = {}

    def with_text(self, shown: str, text: str, code: int) -> Answer:
        """The same with one more text; the oldest goes."""
        texts = {**{name: one for name, one in self.texts.items() if name != shown}, shown: (text, code)}
        return self._replace(texts=dict(list(texts.items())[-MOST_TEXTS:]))


def key_of(question: Mapping[str, Any], surroundings: str) -> str:
    """The name of the file for an answer."""
    return digest([canonical(question), surroundings])


def canonical(question: Mapping[str, Any]) -> str:
    """``question`` as text: the same for equal ones."""
    return json.dumps(question, sort_keys=True)


def find(key: str, question: Mapping[str, Any]) -> Answer | None:
    """The answer that is kept under ``key``; ``None`` where there is none, or it holds no more."""
    content = folder.read(key)
    answer = None if content is None else _unpacked(content)
    if answer is None or canonical(answer.question) != canonical(question):
        return None
    try:
        return answer if answer.evidence.still_holds() else None
    except (TypeError, ValueError, AttributeError):  # no stamps, although whoever wrote it made its digest right
        return None


def keep(key: str, answer: Answer) -> bool:
    """Keep ``answer`` under ``key``; False where that is not possible."""
    document = {
        "question": answer.question,
        "made": answer.made,
        "report": answer.report,
        "evidence": answer.evidence.as_data(),
        "texts": {name: list(one) for name, one in answer.texts.items()},
    }
    packed = zlib.compress(json.dumps(document).encode(), 6)
    return folder.write(key, _head_of(packed) + packed)


def _head_of(packed: bytes) -> bytes:
    import hashlib

    return MAGIC + hashlib.sha256(packed).digest()


def _unpacked(content: bytes) -> Answer | None:
    head, packed = content[: len(MAGIC) + 32], content[len(MAGIC) + 32 :]
    if head != _head_of(packed):
        return None
    try:
        unpacking = zlib.decompressobj()
        text = unpacking.decompress(packed, LARGEST_TEXT)
        if not unpacking.eof:
            return None
        data = json.loads(text)
        texts = {str(name): (str(one), int(code)) for name, (one, code) in data["texts"].items()}
        if not all(isinstance(data[name], str) for name in ("made", "report")) or not all(
            _is_printable(one) for one, _ in texts.values()
        ):
            return None
        return Answer(dict(data["question"]), data["made"], data["report"], Evidence.of_data(data["evidence"]), texts)
    except (zlib.error, ValueError, TypeError, KeyError, AttributeError, RecursionError, MemoryError):
        return None


def _is_printable(text: str) -> bool:
    return not UNPRINTABLE.search(COLOR.sub("", text))
