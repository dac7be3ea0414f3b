"""Coverage reports to be drawn at once: read by their published schema, since pydantic takes 0.1 s to import. Public.

What gets through is what pydantic takes as it is. Of anything else pydantic has to say what it is, or what is wrong.
"""

# ruff: noqa: PTH118, PTH120, PTH123
# Importing pathlib would take longer than all of this.
from __future__ import annotations

import json
import math
import os.path
from collections.abc import Mapping
from typing import Any, ClassVar

MODELS_FILE = os.path.join(os.path.dirname(__file__), "views.json")
"""The models below a report, by their names; those of reports by their kinds. ``docs/_site/schemas.py`` writes it."""
_SIMPLE = {"string": str, "integer": int, "boolean": bool, None: str}
_NULL = {"type": "null"}


class View(dict[str, Any]):
    """A report or a part of one as JSON has it, with its fields as attributes; not to be changed."""

    folds: ClassVar[Mapping[str, str]] = {}
    """What becomes of fields where several become one, as the model has it."""

    def __init__(self, fields: Mapping[str, Any]) -> None:
        super().__init__(fields)
        self.__dict__ = self

    def model_copy(self, *, update: Mapping[str, Any]) -> View:
        """The same with other values of some fields."""
        return type(self)({**self, **update})


def as_it_is(document: Any) -> Any:
    """A document of JSON with each object as a ``View``, by no schema."""
    if isinstance(document, dict):
        return View({name: as_it_is(value) for name, value in document.items()})
    return [as_it_is(value) for value in document] if isinstance(document, list) else document


class TargetView(View):
    """A ``Target``: of a release of torch on MPS."""

    @property
    def version(self) -> str:
        """The release."""
        return str(self["torch"])

    @property
    def software(self) -> str:
        """What it is a release of."""
        return "torch"


class _NotAsItIs(Exception):
    """The document breaks its schema, or is in a form that pydantic changes."""


def view(document: dict[str, Any]) -> Any:
    """The report of one or of several releases on MPS in ``document``, or ``None`` where pydantic has to read it."""
    with open(MODELS_FILE, encoding="utf-8") as file:
        models = json.load(file)
    kind = document.get("kind")
    try:
        return _Reader(models).model(kind, document) if isinstance(kind, str) and kind in models else None
    except (_NotAsItIs, RecursionError, OverflowError, UnicodeEncodeError):  # the last one: half of a character
        return None


class _Reader:
    def __init__(self, models: dict[str, dict[str, Any]]) -> None:
        self._models = models
        self._views: dict[str, type[View]] = {}

    def model(self, name: str, value: object) -> View:
        """A model by its name; a key that it does not have is none of a report that was written by this version."""
        schemas = self._models[name]
        if not isinstance(value, dict) or not value.keys() <= schemas.keys():
            raise _NotAsItIs
        fields = {}
        for field, schema in schemas.items():
            if field not in value and "default" not in schema:
                raise _NotAsItIs
            fields[field] = self.any(schema, value[field]) if field in value else schema["default"]
        if name not in self._views:
            folds = {field: schema["fold"] for field, schema in schemas.items() if "fold" in schema}
            self._views[name] = type(name, (TargetView if name == "Target" else View,), {"folds": folds})
        return self._views[name](fields)

    def any(self, schema: dict[str, Any], value: Any) -> Any:
        """What ``value`` is by ``schema``; of several models the first."""
        if "anyOf" in schema:
            schema, null = schema["anyOf"]
            if value is None and null == _NULL:
                return None
        elif "oneOf" in schema:
            schema = schema["oneOf"][0]
        if "$ref" in schema:
            return self.model(schema["$ref"], value)
        kind = schema.get("type")
        if kind == "array" and type(value) is list and len(value) >= schema.get("minItems", 0):
            return [self.any(schema["items"], part) for part in value]
        if kind == "object" and isinstance(value, dict):
            names = schema.get("propertyNames", {"type": "string"})
            return {self.any(names, key): self.any(schema["additionalProperties"], of) for key, of in value.items()}
        if kind in ("number", "integer") and type(value) in (int, float) and value < schema.get("minimum", value):
            raise _NotAsItIs
        if kind == "number" and type(value) in (int, float) and math.isfinite(value):
            return float(value)
        if type(value) is not _SIMPLE.get(kind) or value not in schema.get("enum", (schema.get("const", value),)):
            raise _NotAsItIs
        if isinstance(value, str) and not value.isprintable():
            value.encode()
        return value
