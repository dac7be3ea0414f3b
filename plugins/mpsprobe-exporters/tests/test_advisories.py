"""Known wrong results are in every format, with their places, ranges and what to do."""

from __future__ import annotations

from example_reports import ADVISORIES, advised, coverage

from mpsprobe.declarations import resolve
from mpsprobe.schemas import AffectedRange, AffectedSystems
from mpsprobe_exporters.advisories import releases, systems
from mpsprobe_exporters.plugin import mpsprobe_exporters

WORDS = ("id", "title", "condition", "symptom", "workaround")

# Prometheus counts them and names none; SARIF and annotations have what is to do and where; a snapshot is of memory.
BRIEF = ("prometheus", "sarif", "annotations", "memory-viz")
TELLING = [one for one in mpsprobe_exporters() if "coverage" in one.kinds and one.name not in BRIEF]


def test_every_format_tells_them_where_there_are_some() -> None:
    words = [str(advisory[key]) for advisory in ADVISORIES for key in WORDS] + ["encoder.layer", "modeling_bert.py:282"]
    for declaration in TELLING:
        render = resolve(declaration.target)().render
        text = " ".join(render(advised()).replace("<wbr>", "").split())
        assert [word for word in words if word not in text] == [], declaration.name
        none = render(coverage("2.15.0", []))
        assert "nown wrong" not in none and "advisory" not in none, declaration.name


def test_words_say_what_is_not_established() -> None:
    said = [
        (AffectedRange(since="2.8.0", fixed="2.11.0"), "from 2.8.0, fixed in 2.11.0"),
        (AffectedRange(since="2.8.0", open=True), "from 2.8.0, no fix known"),
        (AffectedRange(since="2.8.0", seen=["2.9.0"]), "from 2.8.0, fixed later (where: not established)"),
        (AffectedRange(seen=["2.8.0"], open=True), "seen on 2.8.0 (earlier ones: not established), no fix known"),
        (AffectedRange(every=True), "every version"),
        (AffectedRange(), "not established"),
        (AffectedRange(fixed="2.1.0"), "before 2.1.0"),
        (AffectedSystems(), "not established"),
        (AffectedSystems(every=True), "every version"),
        (AffectedSystems(fixed="15.0"), "before 15.0"),
        (AffectedSystems(since="15.0", open=True), "15.0 and newer"),
        (AffectedSystems(since="15.0", fixed="26.4"), "from 15.0 to before 26.4"),
        (AffectedSystems(seen=["26.2"], fixed="26.3"), "seen on 26.2, before 26.3"),
    ]
    for found, words in said:
        assert (systems(found) if isinstance(found, AffectedSystems) else releases(found)) == words
