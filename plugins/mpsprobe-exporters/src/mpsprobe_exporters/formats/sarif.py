"""SARIF 2.1.0, which GitHub's code scanning and editors show next to the code.

The standard is OASIS'; what GitHub asks for beyond it is in "SARIF support for code scanning" of its documentation.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from mpsprobe_exporters.formats.results import LEVELS, Line, Repository, results
from mpsprobe_exporters.plain_text import one_line
from mpsprobe_exporters.supported import judged_report

if TYPE_CHECKING:
    from mpsprobe.schemas.report import Report
    from mpsprobe_exporters.formats.results import Result

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
ROOT = "%SRCROOT%"  # stands for the root of the repository, as GitHub and CodeQL write it
FINGERPRINT = "primaryLocationLineHash"  # the one that GitHub reads
# For each: its name, what it is in a sentence, and what to do.
WORDS = {
    "missing": (
        "MissingOperator",
        "The operator has no kernel for MPS on this torch release",
        "A Mac raises NotImplementedError at this call, unless PYTORCH_ENABLE_MPS_FALLBACK=1 lets it run on the CPU. "
        "Use a torch release that has the kernel, write the call with other operators, or move it to the CPU.",
    ),
    "unsupported": (
        "UnsupportedCall",
        "MPS refuses this call of the operator",
        "A Mac raises an error at this call, and no variable changes that. Give it tensors of another dtype, shape or "
        "device, as the message says, or use a torch release that accepts them.",
    ),
    "fallback": (
        "FallbackToCpu",
        "The operator runs on the CPU instead of the GPU",
        "PyTorch copies its tensors to the CPU and back at each call, which is slow in an inner loop. "
        "Use a torch release that has the kernel, or write the call with other operators.",
    ),
    "unknown": (
        "UnknownOperator",
        "No kernel table covers the operator",
        "It comes from a library that mpsprobe has no table of. Try it on a Mac.",
    ),
    "advisory": (
        "KnownWrongResult",
        "The call is known to give wrong numbers on MPS",
        "It runs, and its results are wrong under the conditions of the advisory. "
        "'mpsprobe advisories show NAME' has the sources and what to do.",
    ),
    "stopped": (
        "RunStopped",
        "The workload raised an exception, and only the operators before it are judged",
        "Run it on the CPU first. What it raises there is not about MPS.",
    ),
    "not-judged": (
        "NotJudged",
        "mpsprobe could not judge this call",
        "Nothing is known of it. Try it on a Mac.",
    ),
    "on-the-cpu": (
        "OnTheCpu",
        "The program computes on the CPU although MPS is there",
        'Move the model and its tensors there with .to("mps").',
    ),
    "written-for-cuda": (
        "WrittenForCuda",
        "The line is written for CUDA, which no Mac has",
        "Write it for the device that is there.",
    ),
    "no-report": (
        "WorkloadNotJudged",
        "The workload could not be judged at all",
        "The message says why. Run 'mpsprobe coverage' with this workload alone.",
    ),
}
EVIDENCE = {
    "registration": "the kernels that the release registers for MPS",
    "branch": "C++ of the release that goes to MPS without a registration",
    "dtype": "a dtype that no tensor on MPS has",
    "device": "a tensor that is on the CPU",
    "message": "a guard in the release's binary, with its message",
    "metal": "the Metal kernels in the release's binary",
    "stub": "a DispatchStub in the release's binary that is never set",
    "list": "the lists of PyTorch's own tests",
    "issue": "issues of PyTorch",
}


class SarifExporter:
    """One run, with a rule for each kind of result that occurs, and a result for each line.

    A result without a line in the repository is at the workload: at its function in ``file.py:function``, else at an
    address that is its name. What ``--allow`` names is there, and suppressed.
    """

    def render(self, report: Report) -> str:
        read, repository = judged_report(report, "sarif"), Repository()
        findings = results(read, repository)
        rules = list(dict.fromkeys(result.rule for result in findings))
        version = one_line(read.environment.mpsprobe) or "0"
        whole = not any(result.rule in ("stopped", "no-report") for result in findings)
        taken: Counter[str] = Counter()
        run = {
            "tool": {"driver": {"name": "mpsprobe", "version": version, "rules": [_rule(name) for name in rules]}},
            "invocations": [{"executionSuccessful": whole}],
            "results": [_result(result, rules, repository, taken) for result in findings],
        }
        return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _rule(name: str) -> dict[str, Any]:
    """The rule called ``name`` (``missing/registration``, ``advisory``) as SARIF's ``reportingDescriptor``."""
    kind, _, source = name.partition("/")
    title, short, help_text = WORDS[kind]
    evidence = f" Known by {EVIDENCE[source]}." if source else ""
    level = LEVELS[kind]
    severity = "recommendation" if level == "note" else level  # as GitHub names it
    return {
        "id": name,
        "name": title + source.capitalize(),
        "shortDescription": {"text": f"{short}."},
        "fullDescription": {"text": f"{short}.{evidence}"},
        "help": {"text": help_text, "markdown": help_text},
        "defaultConfiguration": {"level": level},
        "properties": {"tags": ["mps", kind], "precision": "high", "problem.severity": severity},
    }


def _result(result: Result, rules: list[str], repository: Repository, taken: Counter[str]) -> dict[str, Any]:
    named = one_line(result.workload).lstrip("/") or "workload"
    line = result.line or repository.workload(result.workload) or Line(named, 1)
    artifact = {"uri": quote(line.path, errors="replace"), "uriBaseId": ROOT}
    place: dict[str, Any] = {
        "physicalLocation": {"artifactLocation": artifact, "region": {"startLine": line.number}},
    }
    modules = [{"fullyQualifiedName": name} for name in map(one_line, result.modules) if name]
    if modules:
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
