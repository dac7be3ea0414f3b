"""The audit as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, astuple
from typing import Any, get_args

from mpsprobe_tables.audit.modules import Expected, ModuleAudit, Outcome
from mpsprobe_tables.audit.result import Audit, ReleaseAudit, disagreements
from mpsprobe_tables.audit.scoring import Score, Scores

COUNTS = ("tests", "refused", "reference_raises", "random", "not_predicted")  # of a list, as ``ListScore`` has them
MODES = {"none": "mechanism", "neighbours": "with_neighbouring_lists"}


def json_document(audit: Audit) -> str:
    """Keys in this order; shares are from 0 to 1."""
    content = {
        "torch": audit.torch_version,
        "dtypes": audit.dtypes,
        "only": audit.only,
        "entries": audit.entries,
        "samples": audit.samples,
        "internal_errors": audit.internal,
        "releases": list(map(_release, audit.releases)),
        "untested": [{"release": one.release, "samples": one.counts} for one in audit.untested],
        "modules": list(map(_modules, audit.modules)),
    }
    return json.dumps(content, indent=2)


def _release(audited: ReleaseAudit) -> dict[str, Any]:
    exceptions = [
        {
            "what": line.what,
            "evidence": line.evidence,
            "lists": line.lists,
            "tests": [{"entry": test.entry, "dtype": test.dtype} for test in tests],
        }
        for line, tests in audited.excepted.items()
    ]
    groups = [
        {
            "kind": group.kind,
            "test": "gradient" if group.gradient else "forward",
            "entries": group.entries,
            "dtypes": group.dtypes,
            "lists": group.lists,
            "cause": group.cause,
            "by": [MODES[mode] for mode in group.by],
        }
        for group in disagreements(audited)
    ]
    return {
        "release": audited.release,
        "wheel": audited.wheel,
        "sha256": audited.sha256,
        "figures": {MODES[mode]: _scores(scored) for mode, scored in audited.scores.items()},
        "beyond_claims": {MODES[mode]: {"refused": n, "pairs": of} for mode, (n, of) in audited.beyond.items()},
        "exceptions": exceptions,
        "disagreements": groups,
    }


def _modules(one: ModuleAudit) -> dict[str, Any]:
    outcomes = get_args(Outcome)
    return {
        "release": one.release,
        "tests": len(one.tests),
        "expected": {
            expected: {outcome: one.count(expected, outcome) for outcome in outcomes} for expected in get_args(Expected)
        },
        "recall": round(one.recall, 4),
        "precision": round(one.precision, 4),
        "marks_that_never_act": one.idle,
        "disagreements": list(map(asdict, one.disagreements)),
    }


def _scores(scored: Scores) -> dict[str, Any]:
    return {
        "outcome_of_the_test": {row: _score(score) for row, score in scored.outcome.items()},
        "verdict_of_the_device": {row: _score(score) for row, score in scored.device.items()},
        "lists": {name: dict(zip(COUNTS, astuple(counts), strict=True)) for name, counts in scored.lists.items()},
        "unimplemented_without_restriction": scored.unimplemented,
        "refused_in_float32_and_expected_to_pass": scored.refused_float32,
    }


def _score(score: Score) -> dict[str, Any]:
    return {
        **{name: getattr(score, name) for name in ("tests", "hits", "missed", "false")},
        "wrong_numbers": score.numbers,
        "recall": round(score.recall, 4),
        "precision": round(score.precision, 4),
    }
