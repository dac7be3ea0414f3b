"""The files of the paths that a user names: read with their encoding and line ends, written whole or not at all."""

from __future__ import annotations

import io
import os
import re
import stat
import subprocess
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mpsprobe.errors import UsageError
from mpsprobe.output import write_atomically
from mpsprobe_fix.notebook import Notebook

PYTHON = {".py", ".pyw"}
NOTEBOOK = ".ipynb"
SETTINGS = {".yaml", ".yml", ".toml"}
_LEFT_OUT = {"__pycache__", "node_modules", "site-packages", "build", "dist"}
_YAML = re.compile(r"""^[\s-]*["']?([\w.-]+)["']?\s*[:=]\s*["']?(cuda(?::\d+)?)["']?\s*(#.*)?$""", re.MULTILINE)
_BOM = b"\xef\xbb\xbf"


@dataclass
class Source:
    """One file: ``code`` is what rules read, all cells of a notebook together."""

    path: Path
    name: str
    text: str
    encoding: str
    bom: bytes = b""
    notebook: Notebook | None = None

    @property
    def code(self) -> str:
        return self.text if self.notebook is None else self.notebook.code

    def after(self, code: str) -> str:
        """The text of the file whose code is ``code``."""
        return code if self.notebook is None else self.notebook.with_code(code)

    def write(self, text: str) -> None:
        """Replace the file at once: whoever is interrupted leaves the old one or the new one."""
        write_atomically(self.path, self.encoded(text))

    def encoded(self, text: str) -> bytes:
        return self.bom + text.encode(self.encoding)


@dataclass
class Found:
    """Attributes:
    sources: Python files and notebooks, in order.
    settings: keys of YAML and TOML files whose value is a CUDA device, and that value.
    complaints: one line for each file that is left as it is, with the reason.
    """

    sources: list[Source] = field(default_factory=list)
    settings: dict[str, str] = field(default_factory=dict)
    complaints: list[str] = field(default_factory=list)


def gather(paths: Sequence[str]) -> Found:
    """Every file below ``paths``. A symbolic link out of the path that is named is never followed.

    Raises:
        UsageError: a path does not exist.
    """
    found = Found()
    done: set[Path] = set()
    for given in paths:
        root = Path(given)
        if not root.exists():
            raise UsageError(f"there is no {given}", "Name files or folders: mpsprobe fix train.py src/")
        inside = root.resolve() if root.is_dir() else root.resolve().parent
        if root.is_symlink() and not root.resolve().is_relative_to(root.parent.resolve()):
            found.complaints.append(f"{root}: a symbolic link out of its folder; not changed")
            continue
        if root.is_file() and root.suffix not in PYTHON | SETTINGS | {NOTEBOOK}:
            found.complaints.append(f"{root}: not a Python file or notebook; not changed")
        for path in [root] if root.is_file() else _below(root):
            real = path.resolve()
            if not real.is_relative_to(inside):
                if path.suffix in PYTHON | {NOTEBOOK}:
                    found.complaints.append(f"{path}: a symbolic link out of what was named; not changed")
            elif real not in done:
                done.add(real)
                _read(path, real, found)
    return found


def _below(folder: Path) -> Iterator[Path]:
    for name in sorted(os.listdir(folder)):  # noqa: PTH208 - names, not paths
        path = folder / name
        if path.is_dir():
            if not (name.startswith(".") or name in _LEFT_OUT or path.is_symlink() or (path / "pyvenv.cfg").exists()):
                yield from _below(path)
        elif path.is_file():
            yield path


def _read(path: Path, real: Path, found: Found) -> None:
    if path.suffix in SETTINGS:
        text = real.read_bytes().decode("utf-8", "replace")
        found.settings.update({hit[1].split(".")[-1]: hit[2] for hit in _YAML.finditer(text)})
    if path.suffix not in PYTHON | {NOTEBOOK}:
        return
    try:
        data = real.read_bytes()
        bom = _BOM if data.startswith(_BOM) else b""
        encoding = "utf-8"
        if path.suffix in PYTHON:
            encoding = tokenize.detect_encoding(io.BytesIO(data).readline)[0].removesuffix("-sig")
        text = data[len(bom) :].decode(encoding)
        notebook = Notebook(text) if path.suffix == NOTEBOOK else None
    except (SyntaxError, ValueError, LookupError) as error:
        found.complaints.append(f"{path}: cannot be read ({str(error).splitlines()[0]}); not changed")
        return
    except OSError as error:
        found.complaints.append(f"{path}: cannot be read ({error.strerror}); not changed")
        return
    if not real.stat().st_mode & stat.S_IWUSR:
        found.complaints.append(f"{path}: read-only; not changed")
        return
    found.sources.append(Source(real, path.as_posix(), text, encoding, bom, notebook))


def check_clean(sources: Sequence[Source]) -> None:
    """Raise a ``UsageError`` where git knows changes of these files that are not committed."""
    folders: dict[Path, list[str]] = {}
    for one in sources:
        folders.setdefault(one.path.parent, []).append(one.path.name)
    for folder, names in folders.items():
        command = ["git", "status", "--porcelain", "--", *names]
        try:
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        except OSError:
            return  # no git here
        if done.returncode == 0 and done.stdout.strip():
            name = done.stdout.splitlines()[0][3:]
            raise UsageError(f"{name} has changes that are not committed", "Commit them, or write anyway: --force.")
