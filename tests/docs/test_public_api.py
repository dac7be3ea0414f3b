"""All public names say what they are, and stand in the reference: modules, classes, methods, fields, constants."""

from __future__ import annotations

import ast
import importlib
import inspect
from pathlib import Path

from _site.public import Name, attribute_docstrings, below, entries, members_of, modules_of, names_of
from _site.schemas import meanings
from pydantic import BaseModel
from sphinx.util.inventory import InventoryFile

from mpsprobe_devkit.checking.public import PUBLIC_PARTS
from tests.house.tree import ROOT

SCHEMAS = sorted(f"mpsprobe.schemas.{path.stem}" for path in (ROOT / "mpsprobe" / "schemas").glob("[a-z]*.py"))
PUBLIC = ["mpsprobe_devkit.testing", *(f"mpsprobe.{part}".rstrip(".") for part in PUBLIC_PARTS)]
MODULES = sorted({name for part in PUBLIC for name in modules_of(part)} | {*SCHEMAS})


def _names() -> dict[str, Name]:
    """Every public name, by the way in which a program writes it."""
    found = {}
    for module in MODULES:
        found.update({f"{module}.{public}": name for public, name in names_of(importlib.import_module(module)).items()})
    return found


NAMES = _names()


def test_every_module_says_what_it_is_for() -> None:
    assert not [module for module in MODULES if not importlib.import_module(module).__doc__]


def test_every_public_name_says_what_it_is() -> None:
    assert not [one for full, name in NAMES.items() for one in _silent(full, name)]


def _silent(full: str, name: Name) -> list[str]:
    """What has no word about it, of ``name`` and its members."""
    if not isinstance(name.node, ast.ClassDef):
        is_function = isinstance(name.node, (ast.FunctionDef, ast.AsyncFunctionDef))
        word = ast.get_docstring(name.node) if is_function else below(name.module).get(name.name)  # type: ignore[arg-type]
        return [] if word else [full]
    silent = [] if ast.get_docstring(name.node) else [full]
    said = set(entries(name.value.__doc__)) | set(attribute_docstrings(name.node.body))
    said |= set(meanings(name.value)) if issubclass(name.value, BaseModel) else set()
    inherited = {one for parent in name.value.__mro__[1:] for one in (*vars(parent), *inspect.get_annotations(parent))}
    for member, is_field in members_of(name.node):
        if not (member in said | inherited if is_field else vars(name.value)[member].__doc__):
            silent.append(f"{full}.{member}")
    return silent


def test_a_docstring_names_only_what_is_there() -> None:
    for full, name in NAMES.items():
        thing = name.value
        said = set(entries(thing.__doc__)) if callable(thing) else set()
        if said:
            known = {*inspect.signature(thing).parameters, *getattr(thing, "model_fields", ()), *dir(thing)}
            known |= {one for parent in getattr(thing, "__mro__", ()) for one in inspect.get_annotations(parent)}
            known |= set(inspect.signature(thing.__init__).parameters) if inspect.isclass(thing) else set()
            assert said <= known, full


def test_every_public_name_stands_in_the_reference(site: Path) -> None:
    inventory = InventoryFile.loads((site / "objects.inv").read_bytes(), uri="")
    shown = {name for kind, found in inventory.data.items() if kind.startswith("py:") for name in found}
    missing = []
    for full, name in NAMES.items():
        names = {full, f"{name.module.__name__}.{name.name}"}  # a page shows it under either
        missing += [full] if names.isdisjoint(shown) else []
        if isinstance(name.node, ast.ClassDef) and not issubclass(name.value, BaseModel):
            methods = [member for member, is_field in members_of(name.node) if not is_field]
            missing += [f"{full}.{one}" for one in methods if {f"{way}.{one}" for way in names}.isdisjoint(shown)]
    assert len(NAMES) > 150
    assert not missing
