"""SARIF 2.1.0, which GitHub's code scanning and editors show next to the code.

The standard is OASIS'; what GitHub asks for beyond it is in "SARIF support for code scanning" of its documentation.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections import Counter
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from mpsprobe_exporters.formats.results import LEVELS, Line, Repository, results
from mpsprobe_exporters.plain_text import one_line
from mpsprobe_exporters.supported import supported_report

if TYPE_CHECKING:
    from mpsprobe.schemas.report import Report
    from mpsprobe_exporters.formats.results import Result

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
ROOT = "%SRCROOT%"  # stands for the root of the repository, as GitHub and CodeQL write it
FINGERPRINT = "primaryLocationLineHash"  # the one that GitHub reads


class SarifExporter:
    """One run, with a rule for each kind of result that occurs, and a result for each line.

    A result without a line in the repository is at the workload: at its function in ``file.py:function``, else at an
    address that is its name. What ``--allow`` names is there, and suppressed.
    """

    def render(self, report: Report) -> str:
        read, repository = supported_report(report, "sarif"), Repository()
        findings = results(read, repository)
        rules = list(dict.fromkeys(result.rule for result in findings))
        version = one_line(read.environment.mpsprobe) or "0"
        whole = {"stopped", "no-report"}.isdisjoint(rules)
        taken: Counter[str] = Counter()
        run = {
            "tool": {"driver": {"name": "mpsprobe", "version": version, "rules": [_rule(name) for name in rules]}},
            "invocations": [{"executionSuccessful": whole}],
            "results": [_result(result, rules, repository, taken) for result in findings],
        }
        return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


@cache
def _words() -> dict[str, Any]:
    return tomllib.loads((resources.files("mpsprobe_exporters.formats") / "sarif.toml").read_text(encoding="utf-8"))


def _rule(name: str) -> dict[str, Any]:
    """The rule called ``name`` (``missing/registration``, ``advisory``) as SARIF's ``reportingDescriptor``."""
    kind, _, source = name.partition("/")
    words = _words()
    rule = words["rules"][kind]
    evidence = f" Known by {words['evidence'][source]}." if source else ""
    level = LEVELS[kind]
    severity = "recommendation" if level == "note" else level  # as GitHub names it
    return {
        "id": name,
        "name": rule["name"] + source.capitalize(),
        "shortDescription": {"text": f"{rule['short']}."},
        "fullDescription": {"text": f"{rule['short']}.{evidence}"},
        "help": {"text": rule["help"], "markdown": rule["help"]},
        "defaultConfiguration": {"level": level},
        "properties": {"tags": ["mps", kind], "precision": "high", "problem.severity": severity},
    }


def _result(result: Result, rules: list[str], repository: Repository, taken: Counter[str]) -> dict[str, Any]:
    named = one_line(result.workload).lstrip("/") or "workload"
    line = result.line or repository.workload(result.workload) or Line(named, 1)
    artifact = {"uri": quote(line.path, errors="replace"), "uriBaseId": ROOT}
    place: dict[str, Any] = {"physicalLocation": {"artifactLocation": artifact, "region": {"startLine": line.number}}}
    if modules := [{"fullyQualifiedName": name} for name in map(one_line, result.modules) if name]:
        place["logicalLocations"] = modules
    written = {
        "ruleId": result.rule,
        "ruleIndex": rules.index(result.rule),
        "level": result.level,
        "message": {"text": result.message},
        "locations": [place],
        "partialFingerprints": {FINGERPRINT: _fingerprint(result, line, taken)},
    }
    if result.allowed:
        written["suppressions"] = [{"kind": "external", "status": "accepted", "justification": "named by --allow"}]
    return written


def _fingerprint(result: Result, line: Line, taken: Counter[str]) -> str:
    """The same while the code around it moves, and on another torch release: its line and message are not in it."""
    parts = json.dumps([result.rule.partition("/")[0], result.about, result.workload, line.path])
    hashed = hashlib.sha256(parts.encode()).hexdigest()[:16]
    taken[hashed] += 1
    return f"{hashed}:{taken[hashed]}"
