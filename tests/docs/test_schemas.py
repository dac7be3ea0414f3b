"""The published JSON Schemas are those of the models, and the reports that mpsprobe writes follow them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from _site.schemas import files, json_schema, meanings, models_of, unit, views
from jsonschema import Draft202012Validator

from mpsprobe.schemas.report import KINDS
from mpsprobe.views import MODELS_FILE
from mpsprobe_devkit.testing import sample_reports
from tests.docs.pages import DOCS

PUBLISHED = DOCS / "schemas"
AGAIN = "write them again: python docs/_site/schemas.py docs/schemas"


def test_what_is_published_is_what_the_models_say() -> None:
    assert {path.name for path in PUBLISHED.iterdir()} == set(files()), AGAIN
    for name, text in files().items():
        assert (PUBLISHED / name).read_text(encoding="utf-8") == text, AGAIN
    assert Path(MODELS_FILE).read_text(encoding="utf-8") == views(), AGAIN


@pytest.mark.parametrize("kind", KINDS)
def test_a_schema_names_its_kind_and_version_and_describes_every_field(kind: str) -> None:
    schema = json_schema(KINDS[kind], kind)
    Draft202012Validator.check_schema(schema)
    assert schema["$id"] == f"urn:mpsprobe:report:{kind}:{KINDS[kind].model_fields['schema_version'].default}"
    for part in (schema, *schema.get("$defs", {}).values()):
        assert part["description"]
        assert not [name for name, field in part["properties"].items() if not field.get("description")]


@pytest.mark.parametrize("kind", KINDS)
def test_a_report_follows_its_schema_and_a_damaged_one_does_not(kind: str) -> None:
    validator = Draft202012Validator(json_schema(KINDS[kind], kind))
    report: dict[str, Any] = json.loads(sample_reports()[kind].model_dump_json())
    validator.validate(report)
    validator.validate({**report, "a_key_of_tomorrow": 1})
    assert list(validator.iter_errors({**report, "kind": "something else"}))
    assert list(validator.iter_errors({key: value for key, value in report.items() if key != _required(kind)}))


def _required(kind: str) -> str:
    return next(name for name, field in KINDS[kind].model_fields.items() if field.is_required())


def test_a_unit_is_told_from_the_name_of_a_quantity() -> None:
    profile = {model.__name__: model for model in models_of("profile")}
    fields = {name: profile["MemoryUse"].model_fields[name] for name in ("peak_allocated_bytes", "caveats")}
    assert [unit(name, field) for name, field in fields.items()] == ["bytes", ""]
    assert unit("duration_ns", profile["StepSample"].model_fields["duration_ns"]) == "nanoseconds"
    assert meanings(profile["StepSample"])["duration_ns"] == "From synchronised to synchronised."
