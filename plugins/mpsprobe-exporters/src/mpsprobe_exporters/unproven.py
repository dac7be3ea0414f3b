"""What a report does not prove, in words: guesses that decided the path, and processes that nobody watched."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mpsprobe.doubts import guesses, unwatched
from mpsprobe_exporters.plain_text import call_site, listed, plural, shortened

if TYPE_CHECKING:
    from mpsprobe.schemas import CoverageReport, MatrixReport

    AnyReport = CoverageReport | MatrixReport


def in_words(report: AnyReport) -> str:
    """The end of a headline's clause, with a semicolon; empty where all is known."""
    guessed, count = guesses(report), unwatched(report)
    at = f" at {places(report)}" if places(report) else ""
    others = f"{plural(count, 'process', 'processes')} that the program started {'was' if count == 1 else 'were'}"
    path = f"; values were guessed{at}, and others may take another path" if guessed else ""
    return path + (f"; {others} not watched" if count else "")


def places(report: AnyReport) -> str:
    """Where a guess decided the path."""
    return listed(shortened(list(dict.fromkeys(call_site(at) for one in guesses(report) for at in one.call_sites)), 2))
