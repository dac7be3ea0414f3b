"""``{models} MODULE``: the pydantic models of a module of ``mpsprobe.schemas``, each field with type, unit and meaning.

``python docs/_site/schemas.py docs/schemas`` writes them as JSON Schema too, and what ``mpsprobe.views`` reads of
them; a test says when that is due.
"""

from __future__ import annotations

import importlib
import inspect
import json
import re
import sys
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

if __package__ is None or __package__ == "":  # run as a script
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from _site.public import names_of, prose
from mpsprobe import schemas
from mpsprobe.schemas.record import Record
from mpsprobe.schemas.report import KINDS
from mpsprobe.views import MODELS_FILE

PACKAGE = "mpsprobe.schemas"
UNITS = {
    "ns": "nanoseconds",
    "bytes": "bytes",
    "mj": "millijoules",
    "per_second": "per second",
}
SCALARS = {
    str: "text",
    int: "whole number",
    float: "number",
    bool: "true or false",
    type(None): "null",
    Any: "anything",
}
FIXED = {
    "kind": "What kind of report it is.",
    "schema_version": "Of this kind; within one keys may be added, and none goes.",
}
DIALECT = "https://json-schema.org/draft/2020-12/schema"


def meanings(model: type[BaseModel]) -> dict[str, str]:
    """What each field of ``model`` means: its description."""
    fields = model.model_fields.items()
    fixed = {name: FIXED[name] for name, field in fields if name in FIXED and get_origin(field.annotation) is Literal}
    return fixed | {name: field.description for name, field in fields if field.description}


def unit(name: str, field: FieldInfo) -> str:
    """The unit that the end of a field's name says; empty for what is not a quantity."""
    for suffix, word in UNITS.items():
        if (name == suffix or name.endswith("_" + suffix)) and re.search("int|float", str(field.annotation)):
            return word
    return ""


def shown_type(annotation: Any) -> str:
    """A type in words of JSON, with links to models."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if annotation in SCALARS:
        return SCALARS[annotation]
    if origin is typing.Annotated:
        return shown_type(inner[0])
    if origin is Literal:
        return " or ".join(f"`{json.dumps(value)}`" for value in inner)
    if origin in (Union, types.UnionType):
        return " or ".join(shown_type(one) for one in inner)
    if origin is list:
        return f"list of {shown_type(inner[0])}"
    if origin is dict:
        return f"object: {shown_type(inner[1])} by {shown_type(inner[0])}"
    if inspect.isclass(annotation) and issubclass(annotation, BaseModel):
        return f"{{py:class}}`~{annotation.__module__}.{annotation.__name__}`"
    return f"`{annotation}`"


def shown_default(field: FieldInfo) -> str:
    """The default as JSON; a dash for a field that has to be there."""
    if field.is_required():
        return "—"
    value = field.get_default(call_default_factory=True)
    if isinstance(value, BaseModel):
        return "all defaults"
    return f"`{json.dumps(value)}`"


def json_schema(model: type[BaseModel], name: str) -> dict[str, Any]:
    """The JSON Schema of a report, with what the docstrings say about each field."""
    made = model.model_json_schema(mode="serialization")
    version = model.model_fields["schema_version"].default
    known = {one.__name__: one for one in _below(Record)}
    for title, part in [(model.__name__, made), *made.get("$defs", {}).items()]:
        if (described := known.get(title)) is not None:
            part["description"] = prose(described.__doc__)
            for field, text in meanings(described).items():
                part["properties"][field]["description"] = text
    head = {"$schema": DIALECT, "$id": f"urn:mpsprobe:report:{name}:{version}"}
    return {**head, **made}


def _below(model: type[BaseModel]) -> list[type[BaseModel]]:
    return [model, *(one for child in model.__subclasses__() for one in _below(child))]


def files() -> Mapping[str, str]:
    """Every published schema: the name of its file, and its text."""
    return {
        f"{name}.schema.json": json.dumps(json_schema(model, name), indent=1, ensure_ascii=False) + "\n"
        for name, model in KINDS.items()
    }


def views() -> str:
    """The file that ``mpsprobe.views`` reads: the fields of each model below the reports that it is about."""
    models: dict[str, Any] = {}
    for kind in ("coverage", "coverage-matrix", "fit"):
        made = KINDS[kind].model_json_schema(ref_template="{model}")
        models |= {**made.pop("$defs"), kind: made}
    fields = {name: {field: _bare(one) for field, one in made["properties"].items()} for name, made in models.items()}
    return json.dumps(fields, separators=(",", ":")) + "\n"


def _bare(schema: Any) -> Any:
    if isinstance(schema, dict):
        return {key: _bare(value) for key, value in schema.items() if key not in ("title", "description")}
    return [_bare(one) for one in schema] if isinstance(schema, list) else schema


def models_of(module: str) -> list[type[BaseModel]]:
    """The models that ``mpsprobe.schemas.MODULE`` defines, the report itself first."""
    loaded = importlib.import_module(f"{PACKAGE}.{module}")
    found = [getattr(loaded, name) for name in names_of(loaded)]
    models = [one for one in found if inspect.isclass(one) and issubclass(one, BaseModel)]
    return sorted(models, key=lambda one: one not in KINDS.values())


def others_of(module: str) -> list[tuple[str, str]]:
    """What else ``mpsprobe.schemas.MODULE`` defines: the directive of autodoc for it, and its full name."""
    loaded = importlib.import_module(f"{PACKAGE}.{module}")
    models = {one.__name__ for one in models_of(module)}
    names = [name for name in names_of(loaded) if name not in models]
    kinds = ["autofunction" if inspect.isfunction(getattr(loaded, name)) else "autodata" for name in names]
    return [(kind, f"{loaded.__name__}.{name}") for kind, name in zip(kinds, names, strict=True)]


def public_name(model: type[BaseModel]) -> str:
    """Where a program imports it from: the package, if the package has it."""
    return (
        f"{PACKAGE}.{model.__name__}" if model.__name__ in schemas.__all__ else f"{model.__module__}.{model.__name__}"
    )


def main(folder: Path) -> None:
    """Write every schema into ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files().items():
        (folder / name).write_text(text, encoding="utf-8", newline="\n")
    Path(MODELS_FILE).write_text(views(), encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
