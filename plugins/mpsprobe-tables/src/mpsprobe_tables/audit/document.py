"""The audit as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any, get_args

from mpsprobe_tables.audit.judging import Judged
from mpsprobe_tables.audit.modules import Expected, ModuleAudit, Outcome
from mpsprobe_tables.audit.result import Audit, ReleaseAudit, disagreements
from mpsprobe_tables.audit.scoring import Score, Scores

MODES = {"none": "mechanism", "neighbours": "with_neighbouring_lists"}


def document(audit: Audit) -> str:
    """Keys in this order; shares are from 0 to 1."""
    content = {
        "torch": audit.torch_version,
        "dtypes": list(audit.dtypes),
        "only": list(audit.only),
        "entries": audit.entries,
        "samples": audit.samples,
        "internal_errors": list(audit.internal),
        "releases": [_release(one) for one in audit.releases],
        "untested": [
            {"release": one.release, "samples": {kind: dict(found) for kind, found in one.counts.items()}}
            for one in audit.untested
        ],
        "modules": [_modules(one) for one in audit.modules],
    }
    return json.dumps(content, indent=2)


def _release(audited: ReleaseAudit) -> dict[str, Any]:
    return {
        "release": audited.release,
        "wheel": audited.wheel,
        "sha256": audited.sha256,
        "figures": {MODES[mode]: _scores(scored) for mode, scored in audited.scores.items()},
        "beyond_claims": {MODES[mode]: {"refused": n, "pairs": of} for mode, (n, of) in audited.beyond.items()},
        "exceptions": [
            {
                "what": line.what,
                "evidence": line.evidence,
                "lists": list(line.lists),
                "tests": [_test(t) for t in tests],
            }
            for line, tests in audited.excepted.items()
        ],
        "disagreements": [
            {
                "kind": group.kind,
                "test": "gradient" if group.gradient else "forward",
                "entries": list(group.entries),
                "dtypes": list(group.dtypes),
                "lists": list(group.lists),
                "cause": group.cause,
                "by": [MODES[mode] for mode in group.by],
            }
            for group in disagreements(audited)
        ],
    }


def _modules(one: ModuleAudit) -> dict[str, Any]:
    expectations, outcomes = get_args(Expected), get_args(Outcome)
    return {
        "release": one.release,
        "tests": len(one.tests),
        "expected": {
            expected: {outcome: one.count(expected, outcome) for outcome in outcomes} for expected in expectations
        },
        "recall": round(one.recall, 4),
        "precision": round(one.precision, 4),
        "marks_that_never_act": list(one.idle),
        "disagreements": [asdict(test) for test in one.disagreements],
    }


def _scores(scored: Scores) -> dict[str, Any]:
    return {
        "outcome_of_the_test": {row: _score(score) for row, score in scored.outcome.items()},
        "verdict_of_the_device": {row: _score(score) for row, score in scored.device.items()},
        "lists": {
            name: {
                "tests": of.tests,
                "refused": of.refused,
                "reference_raises": of.raises,
                "random": of.random,
                "not_predicted": of.runs,
            }
            for name, of in scored.lists.items()
        },
        "unimplemented_without_restriction": dict(scored.unimplemented),
        "refused_in_float32_and_expected_to_pass": list(scored.refused_float32),
    }


def _score(score: Score) -> dict[str, Any]:
    return {
        "tests": score.tests,
        "hits": score.hits,
        "missed": score.missed,
        "false": score.false,
        "wrong_numbers": score.numbers,
        "recall": round(score.recall, 4),
        "precision": round(score.precision, 4),
    }


def _test(one: Judged) -> dict[str, str]:
    return {"entry": one.entry, "dtype": one.dtype}
