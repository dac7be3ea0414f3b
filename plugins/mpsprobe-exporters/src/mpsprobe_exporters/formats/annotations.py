"""Workflow commands of GitHub Actions: printed by a job, they become annotations on the lines that they name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mpsprobe_exporters.formats.results import Repository, results
from mpsprobe_exporters.plain_text import one_line
from mpsprobe_exporters.supported import supported_report

if TYPE_CHECKING:
    from mpsprobe.schemas.report import Report
    from mpsprobe_exporters.formats.results import Result

COMMANDS = {"error": "error", "warning": "warning", "note": "notice"}
CLEAN = "::notice title=mpsprobe::Nothing is to do for MPS."
# What would end a message or a property early; the runner turns them back (actions/toolkit, command.ts).
IN_MESSAGE = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A"})
IN_PROPERTY = {**IN_MESSAGE, **str.maketrans({":": "%3A", ",": "%2C"})}


class AnnotationsExporter:
    """A line for each result, the worst first: GitHub shows ten errors, ten warnings and ten notices of a step."""

    def render(self, report: Report) -> str:
        findings = results(supported_report(report, "annotations"), Repository())
        lines = [_command(result) for result in findings if not result.allowed]
        return "\n".join(dict.fromkeys(lines or [CLEAN])) + "\n"


def _command(result: Result) -> str:
    place = {"file": result.line.path, "line": str(result.line.number)} if result.line else {}
    properties = {**place, "title": one_line(f"mpsprobe {result.workload}", 80)}
    written = ",".join(f"{name}={_escaped(value, IN_PROPERTY)}" for name, value in properties.items())
    return f"::{COMMANDS[result.level]} {written}::{_escaped(result.message, IN_MESSAGE)}"


def _escaped(text: str, escapes: dict[int, str]) -> str:
    return one_line(text, None).translate(escapes)
