"""A report that is read without pydantic is the one that pydantic reads."""

from __future__ import annotations

import copy
import json
from random import Random
from typing import Any

import pytest
from pydantic import ValidationError

from mpsprobe.schemas.report import KINDS
from mpsprobe.views import view
from mpsprobe_devkit.testing import sample_reports
from tests.fuzz.changing import document_changed

SAMPLES = {kind: json.loads(sample_reports()[kind].model_dump_json()) for kind in ("coverage", "coverage-matrix")}


def as_read(document: dict[str, Any]) -> Any:
    try:
        return KINDS[document["kind"]].model_validate(document)
    except (ValidationError, KeyError, TypeError):
        return None


@pytest.mark.parametrize("kind", SAMPLES)
def test_it_has_every_field_with_its_default(kind: str) -> None:
    document = copy.deepcopy(SAMPLES[kind])
    del document["recalled"], document["operators"][0]["examples"]
    seen, read = view(document), as_read(document)
    assert json.dumps(seen, default=vars) == json.dumps(read.model_dump(mode="python"))
    target = seen.target if kind == "coverage" else seen.releases[-1].target
    assert (target.software, target.version) == ("torch", target.torch)
    one = seen.operators[0]
    changed = one.model_copy(update={"calls": 7})
    assert (changed.calls, changed.operator) == (7, one.operator) and one.calls != changed.calls


def test_what_pydantic_refuses_or_changes_is_left_to_it() -> None:
    for place, value in (
        (("workload", "parameters"), "1"), (("workload", "parameters"), True), (("workload", "parameters"), -1),
        (("workload", "phase"), "\x1b[2J"), (("workload", "name"), "\ud800"), (("workload", "name"), ["a"]),
        (("summary", "operators_by_verdict"), {"fine": 1}), (("summary", "calls_by_verdict"), "native"),
        (("target", "backend"), "xpu"), (("target", "version"), "9.9"), (("operators",), "none"), (("operators",), {}),
        (("schema_version",), 2), (("schema_version",), True), (("kind",), "Target"), (("kind",), None),
        (("a_key_of_tomorrow",), 1),
    ):  # fmt: skip
        document = part = copy.deepcopy(SAMPLES["coverage"])
        for key in place[:-1]:
            part = part[key]
        part[place[-1]] = value
        assert view(document) is None


def test_what_gets_through_is_what_pydantic_makes_of_it() -> None:
    random, through = Random(3), 0
    for _ in range(600):
        document = document_changed(random.choice([*SAMPLES.values()]), random)
        seen = view(document)
        if seen is not None:
            through += 1
            assert json.dumps(seen, default=vars) == json.dumps(as_read(document).model_dump(mode="python"))
    assert through
