"""SARIF 2.1.0, which GitHub's code scanning and editors show next to the code.

The standard is OASIS'; what GitHub asks for beyond it is in "SARIF support for code scanning" of its documentation.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from mpsprobe_exporters.plain_text import one_line
from mpsprobe_exporters.repository import Line, Repository
from mpsprobe_exporters.results import results
from mpsprobe_exporters.sarif_rules import rule
from mpsprobe_exporters.supported import judged_report

if TYPE_CHECKING:
    from mpsprobe.schemas.report import Report
    from mpsprobe_exporters.results import Result

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
ROOT = "%SRCROOT%"
"""The base of addresses that stands for the root of the repository, as GitHub and CodeQL write it."""
FINGERPRINT = "primaryLocationLineHash"
"""The one fingerprint that GitHub reads."""


class SarifExporter:
    """One run, with a rule for each kind of result that occurs, and a result for each line.

    A result without a line in the repository is at the workload: at its function in ``file.py:function``, else at an
    address that is its name. What ``--allow`` names is there, and suppressed.
    """

    def render(self, report: Report) -> str:
        """The document.

        Raises:
            ReportError: it is no coverage.
        """
        read, repository = judged_report(report, "sarif"), Repository()
        found = results(read, repository)
        rules = list(dict.fromkeys(one.rule for one in found))
        taken: Counter[str] = Counter()
        run = {
            "tool": {
                "driver": {
                    "name": "mpsprobe",
                    "version": one_line(read.environment.mpsprobe) or "0",
                    "rules": [rule(name) for name in rules],
                }
            },
            "invocations": [
                {"executionSuccessful": not any(one.rule in ("stopped", "no-report") for one in found)},
            ],
            "results": [_result(one, rules, repository, taken) for one in found],
        }
        return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _result(one: Result, rules: list[str], repository: Repository, taken: Counter[str]) -> dict[str, Any]:
    line = one.line or repository.workload(one.workload) or Line(one_line(one.workload).lstrip("/") or "workload", 1)
    place: dict[str, Any] = {
        "physicalLocation": {
            "artifactLocation": {"uri": quote(line.path, errors="replace"), "uriBaseId": ROOT},
            "region": {"startLine": line.number},
        }
    }
    modules = [name for name in map(one_line, one.modules) if name]
    if modules:
        place["logicalLocations"] = [{"fullyQualifiedName": name} for name in modules]
    found = {
        "ruleId": one.rule,
        "ruleIndex": rules.index(one.rule),
        "level": one.level,
        "message": {"text": one.message},
        "locations": [place],
        "partialFingerprints": {FINGERPRINT: _fingerprint(one, line, taken)},
    }
    if one.allowed:
        found["suppressions"] = [{"kind": "external", "status": "accepted", "justification": "named by --allow"}]
    return found


def _fingerprint(one: Result, line: Line, taken: Counter[str]) -> str:
    """The same while the code around it moves, and on another torch release: its line and message are not in it."""
    parts = json.dumps([one.rule.partition("/")[0], one.about, one.workload, line.path])
    hashed = hashlib.sha256(parts.encode()).hexdigest()[:16]
    taken[hashed] += 1
    return f"{hashed}:{taken[hashed]}"
