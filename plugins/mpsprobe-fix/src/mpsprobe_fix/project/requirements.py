"""What a project says that it needs: requirements*.txt, pyproject.toml, setup.cfg, environment.yml. Nothing is run."""

from __future__ import annotations

import configparser
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from mpsprobe_fix.files import Found, below, content

MAC = {"sys_platform": "darwin", "platform_system": "Darwin", "platform_machine": "arm64", "os_name": "posix"}
MOST = 2_000  # requirements of one file; a list of all that is installed has some hundred
_CUDA_INDEX = re.compile(r"/whl/cu\d+|pypi\.nvidia\.com|pypi\.ngc\.nvidia\.com")
_CONDA = re.compile(r"(?:[\w-]+::)?([\w.-]+(?:\[[\w,]+\])?[ ]*(?:[=<>~!].*)?)")


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
    for file in [folder] if folder.is_file() else below(folder, Found()):
        read = next((found for pattern, found in _READERS if re.fullmatch(pattern, file.name)), None)
        if read is None:
            continue
        try:
            text = content(file).decode("utf-8").replace("\r\n", "\n")
            asked = [one for one in islice(read(text), MOST) if isinstance(one, str)]
        except (OSError, ValueError, configparser.Error, AttributeError, TypeError, RecursionError):
            continue
        lines = text.splitlines()
        for one in asked:
            line = next((number for number, written in enumerate(lines, 1) if one in written), None)
            yield from _of_text(one, f"{file}:{line}" if line else str(file))
        for number, written in enumerate(lines, 1):
            for word in [] if written.lstrip().startswith("#") else written.split():
                if "http" in word and _CUDA_INDEX.search(word, word.index("http")):
                    yield Required("", word[word.index("http") :].strip("\"'"), f"{file}:{number}")


def _of_text(text: str, place: str) -> Iterator[Required]:
    conda = re.fullmatch(r"([\w.-]+)\s*=\s*([\w.*]+)(=.*)?", text)  # a line of conda: numpy=1.26=build
    try:
        found = Requirement(f"{conda[1]}=={conda[2].removesuffix('.*').removesuffix('*')}.*" if conda else text)
        wanted = found.marker is None or found.marker.evaluate({**MAC, "extra": ""}) or "extra" in str(found.marker)
    except ValueError:  # no requirement, or a marker that compares what cannot be compared
        return
    if wanted:
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
    for line in text.splitlines():
        dash, _, item = line.partition("#")[0].strip().partition(" ")
        found = _CONDA.fullmatch(item.strip()) if dash == "-" else None
        if found is not None:
            yield found[1]


_READERS = (
    (r"(requirements|constraints)[\w.-]*\.(txt|in)|.*requirements\.txt", _of_requirements),
    (r"pyproject\.toml", _of_pyproject),
    (r"setup\.cfg", _of_setup),
    (r"(environment|conda)[\w.-]*\.ya?ml", _of_conda),
)
