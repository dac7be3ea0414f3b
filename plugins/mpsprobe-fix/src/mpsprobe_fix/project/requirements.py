"""What a project says that it needs: requirements*.txt, pyproject.toml, setup.cfg, environment.yml. Nothing is run."""

from __future__ import annotations

import configparser
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from mpsprobe_fix.files import below

MAC = {"sys_platform": "darwin", "platform_system": "Darwin", "platform_machine": "arm64", "os_name": "posix"}
_CUDA_INDEX = re.compile(r"https?://\S*(/whl/cu\d+|pypi\.nvidia\.com|pypi\.ngc\.nvidia\.com)\S*")


@dataclass(frozen=True)
class Required:
    """One line of them, for a Mac: what only another platform needs is left out.

    Attributes:
        name: as the index spells it; ``python``, or empty where the line is an address of CUDA builds.
        text: as it stands there.
        place: file and line.
    """

    name: str
    text: str
    place: str
    specifier: str = ""


def required(folder: Path) -> Iterator[Required]:
    """What the files of ``folder`` ask for; a file that cannot be read asks for nothing."""
    for file in sorted(below(folder, [])):
        read = next((found for pattern, found in _READERS if re.fullmatch(pattern, file.name)), None)
        if read is None:
            continue
        try:
            text = file.read_text(encoding="utf-8")
            asked = list(read(text))
        except (OSError, ValueError, configparser.Error, AttributeError, TypeError):
            continue
        lines = text.splitlines()
        for one in asked:
            line = next((number for number, content in enumerate(lines, 1) if one in content), None)
            yield from _of_text(one, f"{file}:{line}" if line else str(file))
        for number, content in enumerate(lines, 1):
            if not content.lstrip().startswith("#") and (found := _CUDA_INDEX.search(content)):
                yield Required("", found[0].strip("\"'"), f"{file}:{number}")


def _of_text(text: str, place: str) -> Iterator[Required]:
    conda = re.fullmatch(r"([\w.-]+)\s*=\s*([\w.*]+)(=.*)?", text)  # a line of conda: numpy=1.26=build
    try:
        found = Requirement(f"{conda[1]}=={conda[2].removesuffix('.*').removesuffix('*')}.*" if conda else text)
    except InvalidRequirement:
        return
    if found.marker is None or found.marker.evaluate({**MAC, "extra": ""}) or "extra" in str(found.marker):
        yield Required(canonicalize_name(found.name), text, place, str(found.specifier))


def _of_requirements(text: str) -> Iterator[str]:
    for line in text.replace("\\\n", " ").splitlines():
        bare = re.split(r"(?:^|\s)#|\s--hash", line)[0].strip()
        if bare and not bare.startswith("-"):
            yield bare


def _of_pyproject(text: str) -> Iterator[str]:
    document = tomllib.loads(text)
    project, tool = document.get("project", {}), document.get("tool", {})
    yield from project.get("dependencies", [])
    for some in project.get("optional-dependencies", {}).values():
        yield from some
    yield from (one for some in document.get("dependency-groups", {}).values() for one in some if isinstance(one, str))
    yield from document.get("build-system", {}).get("requires", [])
    if "requires-python" in project:
        yield f"python{project['requires-python']}"
    for name, value in tool.get("poetry", {}).get("dependencies", {}).items():
        version = value if isinstance(value, str) else ""
        yield f"{name}{version}" if re.match(r"[<>=!~]", version) else name


def _of_setup(text: str) -> Iterator[str]:
    options = configparser.ConfigParser(interpolation=None)
    options.read_string(text)
    for section in {"options", "options.extras_require"} & {*options.sections()}:
        for name, value in options[section].items():
            if name == "python_requires":
                yield f"python{value}"
            elif name == "install_requires" or section != "options":
                yield from filter(None, value.splitlines())


def _of_conda(text: str) -> Iterator[str]:
    """Its items, those of pip too; names of channels are among them, and no package."""
    yield from re.findall(
        r"^[ ]*-[ ]+(?:[\w-]+::)?([\w.-]+(?:\[[\w,]+\])?[ ]*(?:[=<>~!][^#\n]*?)?)[ ]*(?:#.*)?$", text, re.M
    )


_READERS = (
    (r"(requirements|constraints)[\w.-]*\.(txt|in)|.*requirements\.txt", _of_requirements),
    (r"pyproject\.toml", _of_pyproject),
    (r"setup\.cfg", _of_setup),
    (r"(environment|conda)[\w.-]*\.ya?ml", _of_conda),
)
