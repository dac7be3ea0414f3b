"""The files of a new plugin, as text: templates with the names filled in."""

from __future__ import annotations

import json
import string
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable

from mpsprobe import __version__
from mpsprobe_devkit.scaffold.names import Names


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind, called as the registry calls it; so are its module, its test and its folder in ``templates/``."""

    name: str
    summary: str  # what a plugin of this kind does in general, for whoever has to choose
    writes: str  # what the plugin that is written does, for its description
    declarations: Sequence[str]  # what its hooks return, from ``mpsprobe.declarations``
    use: str  # a command line that uses it, where ``{short}`` stands for its name
    dependencies: Sequence[str] = ()  # what its module imports besides mpsprobe


_TABLE = tomllib.loads((files("mpsprobe_devkit.scaffold") / "templates" / "kinds.toml").read_text(encoding="utf-8"))
KINDS: Mapping[str, Kind] = {name: Kind(name, **kind) for name, kind in _TABLE.items()}


SUFFIX = ".tmpl"
DOT = "dot-"  # how a template's name begins whose file begins with a dot: tools would read it in this repository
WIDTH = 120
NO_LICENSE = (
    "Choose a license: put its text into a file `LICENSE`, and its name into `pyproject.toml` as\n"
    '`license = "MIT"`. Without one nobody may use what you publish.'
)


class Text(string.Template):
    """A template. ``$`` and ``{}`` are left to shells, to GitHub's workflows and to Python."""

    delimiter = "%%"


def render(names: Names, kinds: Sequence[Kind], author: Mapping[str, str], license_name: str = "") -> dict[str, str]:
    """Every file of the package by its path in it, with ``/``.

    Args:
        kinds: at least one, each once.
        author: ``name`` and ``email``, as far as they are known.
        license_name: as SPDX writes it; empty where the author has not chosen yet.
    """
    plain = {"distribution": names.distribution, "package": names.package, "short": names.short}
    of_kinds = {kind.name: {p: Text(t).substitute(plain) for p, t in _templates(kind.name)} for kind in kinds}
    values = {**plain, **_values(names, kinds, author, license_name)}
    for file, value in (("hook.py", "hooks"), ("use.md", "uses")):
        separator = "\n\n" if value == "hooks" else "\n"
        values[value] = separator.join(texts[file] for texts in of_kinds.values()).rstrip("\n")
    found = {}
    for path, text in _templates("package"):
        parts = [f".{part.removeprefix(DOT)}" if part.startswith(DOT) else part for part in path.split("/")]
        target = "/".join(names.package if part == "package" else part for part in parts)
        found[target] = Text(text).substitute(values)
    for kind, texts in of_kinds.items():
        found[f"src/{names.package}/{kind}.py"] = texts["module.py"]
        found[f"tests/test_{kind}.py"] = texts["test.py"]
        found |= {path: text for path, text in texts.items() if path.startswith("tests/")}
    return dict(sorted(found.items()))


def _values(names: Names, kinds: Sequence[Kind], author: Mapping[str, str], license_name: str) -> dict[str, str]:
    """What stands for each placeholder of the package, besides the names and what the kinds have files for."""
    release = ".".join(__version__.split(".")[:2])  # that the author sees, without its fixes
    dependencies = {f"mpsprobe>={release}", *(dependency for kind in kinds for dependency in kind.dependencies)}
    # A string of JSON is one of TOML, as long as nothing outside ASCII is escaped.
    given = ", ".join(f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in author.items())
    jobs = [(f"src/{names.package}/{kind.name}.py", f"the {kind.name}; imported when it is used") for kind in kinds]
    tested = "and what this one promises"
    jobs += [(f"tests/test_{kind.name}.py", f"the contract of a {kind.name}, {tested}") for kind in kinds]
    declared = sorted({declaration for kind in kinds for declaration in kind.declarations})
    line = f"from mpsprobe.declarations import {', '.join(declared)}"
    lines = ["from mpsprobe.declarations import (", *(f"    {one}," for one in declared), ")"]
    return {
        "description": f"{_described(kinds)}, as a plugin of mpsprobe",
        "authors": f"authors = [{{ {given} }}]\n" if given else "",
        "dependencies": "\n".join(f"    {json.dumps(dependency)}," for dependency in sorted(dependencies)),
        "declarations": line if len(line) <= WIDTH else "\n".join(lines),
        "files": "\n".join(f"| `{path}` | {job} |" for path, job in jobs),
        "license": f"license = {json.dumps(license_name)}\n" if license_name else "",
        "release": f"Put the text of the license ({license_name}) into a file `LICENSE`."
        if license_name
        else NO_LICENSE,
    }


def _described(kinds: Sequence[Kind]) -> str:
    *first, last = (f"{'an' if kind.name[0] in 'aeiou' else 'a'} {kind.name}" for kind in kinds)
    what = f"{', '.join(first)} and {last}" if first else kinds[0].writes
    return f"{what[0].upper()}{what[1:]}"


def _templates(folder: str) -> Iterator[tuple[str, str]]:
    """The path and the text of each template in a folder, without their suffix."""
    waiting: list[tuple[Traversable, str]] = [(files("mpsprobe_devkit.scaffold") / "templates" / folder, "")]
    for place, inside in waiting:
        for path in place.iterdir():
            if path.is_dir():
                waiting.append((path, f"{inside}{path.name}/"))
            elif path.name.endswith(SUFFIX):
                yield inside + path.name.removesuffix(SUFFIX), path.read_text(encoding="utf-8")
