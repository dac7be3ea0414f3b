"""Plain English: phrases that sound translated stay out of pages, messages, docstrings and comments."""

from __future__ import annotations

import re

from tests.house.tree import ROOT, files, shown

PHRASES = {
    r"told": "'reported', 'shown', 'named': say who does what",
    r"held against": "'compared with'",
    r"beside": "'next to', 'with', 'besides', 'in addition to'",
    r"(say|says|said) of": "'says about'",
    r"what it comes to": "the sum, the result",
    r"lead elsewhere": "'the result may be different'",
    r"equal neighbours": "'successive releases with the same verdicts'",
    r"checks hold": "'checks are true'",
    r"torch that traced": "'the torch that ran the trace'",
    r"a (exporter|operator|error|option|int|argument|environment|element|event)": "'an'",
}
TEXT = {".py", ".md", ".tmpl", ".toml", ".yaml", ".yml", ".cpp", ".h", ".sh", ".css", ".js"}
LEFT_OUT = ("docs/gallery/", "CHANGELOG.md", shown(ROOT / "tests/house/test_words.py"))
"""The gallery is what exporters write; the changelog is history."""


def test_phrases_that_sound_translated_stay_out() -> None:
    unwanted = re.compile(rf"\b({'|'.join(PHRASES)})\b", re.IGNORECASE)
    found = [
        f"{shown(path)}:{number}: '{hit[0]}'"
        for path in files()
        if path.suffix in TEXT and not shown(path).startswith(LEFT_OUT)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        for hit in unwanted.finditer(line)
    ]
    assert not found, "\n".join([*found, "", "Say instead:", *(f"{one}: {other}" for one, other in PHRASES.items())])
