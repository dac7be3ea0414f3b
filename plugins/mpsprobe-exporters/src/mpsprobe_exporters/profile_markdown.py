"""A profile in GitHub-flavoured Markdown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mpsprobe_exporters import profile_answer
from mpsprobe_exporters.markdown_text import prose, table

if TYPE_CHECKING:
    from mpsprobe.schemas import ProfileReport


def blocks(report: ProfileReport) -> Iterator[str]:
    """The blocks of the document, from the short answer to the remarks."""
    yield f"**{prose(profile_answer.short_answer(report))}.**"
    yield "\n".join(
        f"{prose(line)}." for line in (*profile_answer.workload_lines(report), profile_answer.method_line(report))
    )
    yield "\n".join(f"- {prose(line)}" for line in profile_answer.device_lines(report))
    found = profile_answer.rows(report)
    shown = profile_answer.shown_columns(found)
    titles = [profile_answer.TITLES[index] for index in shown]
    yield "\n".join(table(titles, ([prose(row[i]) for i in shown] for row in found), right=range(1, len(shown))))
    for title, lines in (("Phases", profile_answer.phase_lines(report)), ("Remarks", profile_answer.remarks(report))):
        if lines:
            yield f"### {title}"
            yield "\n".join(f"- {prose(line)}" for line in lines)
