"""The files of a new plugin, as text: templates with the names filled in."""

from __future__ import annotations

import json
import string
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable

from mpsprobe import __version__
from mpsprobe_devkit.scaffold.kinds import Kind
from mpsprobe_devkit.scaffold.names import Names

SUFFIX = ".tmpl"
DOT = "dot-"  # how a template's name begins whose file begins with a dot: tools would read it in this repository
WIDTH = 120


class Text(string.Template):
    """A template. ``$`` and ``{}`` are left to shells, to GitHub's workflows and to Python."""

    delimiter = "%%"


@dataclass(frozen=True, slots=True)
class Author:
    """Who writes the plugin; either may be empty."""

    name: str = ""
    email: str = ""


def render(names: Names, kinds: Sequence[Kind], author: Author, license_name: str = "") -> dict[str, str]:
    """Every file of the package by its path in it, with ``/``.

    Args:
        kinds: at least one, each once.
        license_name: as SPDX writes it; empty where the author has not chosen yet.
    """
    values = {**_values(names, kinds, author), **_license(license_name)}
    found = {
        _target(path, names): Text(text).substitute(values)
        for path, text in _templates(files("mpsprobe_devkit.scaffold") / "templates" / "package")
    }
    for kind in kinds:
        found[f"src/{names.package}/{kind.name}.py"] = _of_kind(kind, "module.py", names)
        found[f"tests/test_{kind.name}.py"] = _of_kind(kind, "test.py", names)
        data = files("mpsprobe_devkit.scaffold") / "templates" / kind.name / "tests"
        found |= {f"tests/{path.removesuffix(SUFFIX)}": text for path, text in _templates(data)}
    return dict(sorted(found.items()))


def _values(names: Names, kinds: Sequence[Kind], author: Author) -> dict[str, str]:
    """What stands for each placeholder; those of one kind have the names alone."""
    dependencies = dict.fromkeys(
        [f"mpsprobe>={_minor(__version__)}", *(one for kind in kinds for one in kind.dependencies)]
    )
    jobs = [(f"src/{names.package}/{kind.name}.py", f"the {kind.name}; imported when it is used") for kind in kinds]
    jobs += [
        (f"tests/test_{kind.name}.py", f"the contract of a {kind.name}, and what this one promises") for kind in kinds
    ]
    return {
        **_plain(names),
        "description": _description(kinds),
        "authors": _authors(author),
        "dependencies": "\n".join(f"    {json.dumps(one)}," for one in sorted(dependencies)),
        "declarations": _import(sorted({one for kind in kinds for one in kind.declarations})),
        "hooks": "\n\n".join(_of_kind(kind, "hook.py", names) for kind in kinds).rstrip("\n"),
        "uses": "\n".join(_of_kind(kind, "use.md", names) for kind in kinds).rstrip("\n"),
        "files": "\n".join(f"| `{path}` | {job} |" for path, job in jobs),
    }


def _plain(names: Names) -> dict[str, str]:
    return {
        "distribution": names.distribution,
        "package": names.package,
        "short": names.short,
    }


def _of_kind(kind: Kind, name: str, names: Names) -> str:
    template = files("mpsprobe_devkit.scaffold") / "templates" / kind.name / f"{name}{SUFFIX}"
    return Text(template.read_text(encoding="utf-8")).substitute(_plain(names))


def _templates(folder: Traversable, inside: str = "") -> Iterator[tuple[str, str]]:
    """The path in ``folder`` and the text of each template; none where there is no such folder."""
    if not folder.is_dir():
        return
    for one in folder.iterdir():
        if one.is_dir():
            yield from _templates(one, f"{inside}{one.name}/")
        elif one.name.endswith(SUFFIX):
            yield inside + one.name, one.read_text(encoding="utf-8")


def _target(path: str, names: Names) -> str:
    parts = path.removesuffix(SUFFIX).split("/")
    parts = ["." + part.removeprefix(DOT) if part.startswith(DOT) else part for part in parts]
    return "/".join(names.package if part == "package" else part for part in parts)


def _import(declared: Sequence[str]) -> str:
    """The import of declarations, as ruff formats it."""
    line = f"from mpsprobe.declarations import {', '.join(declared)}"
    if len(line) <= WIDTH:
        return line
    return "\n".join(["from mpsprobe.declarations import (", *(f"    {one}," for one in declared), ")"])


def _authors(author: Author) -> str:
    fields: Mapping[str, str] = {"name": author.name, "email": author.email}
    # A string of JSON is one of TOML, as long as nothing outside ASCII is escaped.
    given = [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in fields.items() if value]
    return f"authors = [{{ {', '.join(given)} }}]\n" if given else ""


def _license(name: str) -> dict[str, str]:
    if name:
        return {
            "license": f"license = {json.dumps(name)}\n",
            "release": f"Put the text of the license ({name}) into a file `LICENSE`.",
        }
    advice = (
        "Choose a license: put its text into a file `LICENSE`, and its name into `pyproject.toml` as\n"
        '`license = "MIT"`. Without one nobody may use what you publish.'
    )
    return {"license": "", "release": advice}


def _description(kinds: Sequence[Kind]) -> str:
    *first, last = (f"{'an' if kind.name[0] in 'aeiou' else 'a'} {kind.name}" for kind in kinds)
    what = f"{', '.join(first)} and {last}" if first else kinds[0].writes
    return f"{what[0].upper()}{what[1:]}, as a plugin of mpsprobe"


def _minor(version: str) -> str:
    """``0.1`` of ``0.1.3``: a plugin asks for the release that its author sees, without its fixes."""
    return ".".join(version.split(".")[:2])
