"""The files of the paths that a user names: read with their encoding and line ends, written whole or not at all. A
notebook is one program: its code cells one after the other, and each back in its place; outputs stay.
"""

from __future__ import annotations

import ast
import io
import json
import os
import re
import stat
import subprocess
import tokenize
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from mpsprobe.errors import UsageError
from mpsprobe.output import write_atomically
from mpsprobe.suggestions import first_line, printable

PYTHON = {".py", ".pyw"}
NOTEBOOK = ".ipynb"
SETTINGS = {".yaml", ".yml", ".toml"}
_LEFT_OUT = {"__pycache__", "node_modules", "site-packages", "build", "dist"}
_SETTING = re.compile(
    r"""^[ \t]*(?:-[ \t]+)?["']?([\w.-]{1,100})["']?[ \t]*[:=][ \t]*["']?(cuda(?::\d+)?)["']?[ \t]*(?:\#.*)?\r?$""",
    re.MULTILINE,
)
MOST_BYTES = 50_000_000
"""Of a file that is read; notebooks have pictures in them."""
_OF_IT = ("local", "worktree")
_NO_FILTER = {"clean": "", "process": "", "required": "false"}
_CELL = "# mpsprobe-cell {}\n"
_MAGIC = "#mpsprobe-magic:"
_OF_PYTHON = re.compile(r"\s*%%(time|timeit|capture|prun|memit|mprun)\b")
_SPACE = re.compile(r"[ \t\r\n]*")
_LINE = re.compile(r"^(\s*)([%!?].*)$")
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

    def edited(self, text: str) -> Source:
        """This file with another text."""
        return replace(self, text=text, notebook=None if self.notebook is None else Notebook(text))

    def after(self, code: str) -> str:
        """The text of the file whose code is ``code``."""
        return code if self.notebook is None else self.notebook.with_code(code)

    def write(self, text: str) -> None:
        """Replace the file at once: whoever is interrupted leaves the old one or the new one.

        Raises UsageError: it is no longer what was read, or a link has taken its place.
        """
        write_atomically(self.path, self.encoded(text), self._check_same)

    def _check_same(self) -> None:
        try:
            same = self.path.resolve() == self.path and content(self.path) == self.encoded(self.text)
        except (OSError, ValueError, RuntimeError):  # gone, another kind of file, a loop of links
            same = False
        if not same:
            raise UsageError(f"{self.name} was changed while it was looked at", "Start again.")

    def encoded(self, text: str) -> bytes:
        return self.bom + text.encode(self.encoding)


def content(path: Path) -> bytes:
    """What is in the regular file ``path``; a pipe that has taken its place is not waited for.

    Raises OSError: it cannot be read; ValueError: it is another kind of file, or has more than ``MOST_BYTES``.
    """
    # pathlib has no opener
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | getattr(os, "O_NONBLOCK", 0))) as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise ValueError("not a regular file")
        if status.st_size > MOST_BYTES:
            raise ValueError(f"more than {MOST_BYTES:,} bytes")
        return file.read(MOST_BYTES)


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

    Raises UsageError: a path does not exist.
    """
    gathered = Found()
    done: set[Path] = set()
    for given in paths:
        root = Path(given)
        if not os.path.exists(root):  # noqa: PTH110 - pathlib raises where a name is too long
            raise UsageError(f"there is no {printable(given)}", "Name files or folders: mpsprobe fix train.py src/")
        inside = root.resolve() if root.is_dir() else root.resolve().parent
        if root.is_symlink() and not root.resolve().is_relative_to(root.parent.resolve()):
            gathered.complaints.append(f"{root}: a symbolic link out of its folder; not changed")
            continue
        if not root.is_dir() and root.suffix not in PYTHON | SETTINGS | {NOTEBOOK}:
            gathered.complaints.append(f"{root}: not a Python file or notebook; not changed")
        for path in below(root, gathered.complaints):
            real = path.resolve()
            if not real.is_relative_to(inside):
                if path.suffix in PYTHON | {NOTEBOOK}:
                    gathered.complaints.append(f"{path}: a symbolic link out of what was named; not changed")
            elif real not in done:
                done.add(real)
                _read(path, real, gathered)
    return gathered


def below(root: Path, complaints: list[str]) -> Iterator[Path]:
    """Every file of the program's own in ``root``, or that one file."""

    def failed(error: OSError) -> None:
        complaints.append(f"{error.filename}: cannot be read ({error.strerror}); not looked at")

    if not root.is_dir():
        yield root
        return
    for folder, inner, names in os.walk(root, onerror=failed):
        inner[:] = sorted(name for name in inner if not is_left_out(Path(folder, name)))
        paths = (Path(folder, name) for name in sorted(names))
        yield from (path for path in paths if os.path.isfile(path))  # noqa: PTH113 - pathlib raises where it may not look


def is_left_out(folder: Path) -> bool:
    """Whether a folder has nothing of the program's own: hidden ones, builds, environments."""
    return folder.name.startswith(".") or folder.name in _LEFT_OUT or os.path.exists(folder / "pyvenv.cfg")  # noqa: PTH110


def _read(path: Path, real: Path, gathered: Found) -> None:
    if path.suffix not in PYTHON | SETTINGS | {NOTEBOOK}:
        return
    try:
        data = content(real)
        if path.suffix in SETTINGS:
            hits = _SETTING.finditer(data.decode("utf-8", "replace"))
            gathered.settings.update({hit[1].split(".")[-1]: hit[2] for hit in hits})
            return
        bom = _BOM if data.startswith(_BOM) else b""
        encoding = "utf-8"
        if path.suffix in PYTHON:
            encoding = tokenize.detect_encoding(io.BytesIO(data).readline)[0].removesuffix("-sig")
        text = data[len(bom) :].decode(encoding)
        notebook = Notebook(text) if path.suffix == NOTEBOOK else None
        source = Source(real, path.as_posix(), text, encoding, bom, notebook)
        writable = real.stat().st_mode & stat.S_IWUSR
        same = source.encoded(text) == data
    except (SyntaxError, ValueError, LookupError, RecursionError) as error:
        gathered.complaints.append(f"{path}: cannot be read ({first_line(error)}); not changed")
    except OSError as error:
        gathered.complaints.append(f"{path}: cannot be read ({error.strerror}); not changed")
    else:
        if not writable:
            gathered.complaints.append(f"{path}: read-only; not changed")
        elif not same:
            gathered.complaints.append(f"{path}: cannot be written again as {encoding}; not changed")
        else:
            gathered.sources.append(source)


def check_clean(sources: Sequence[Source]) -> None:
    """Raise a ``UsageError`` where git knows changes of these files that are not committed."""
    folders: dict[Path, list[str]] = {}
    for source in sources:
        folders.setdefault(source.path.parent, []).append(source.path.name)
    for folder, names in folders.items():
        try:
            # An index that is only read starts no hook; names are no patterns.
            flags = ["--no-optional-locks", "--literal-pathspecs"]
            done = _git(folder, [*flags, "status", "--porcelain", "--", *names], _switched_off(folder))
        except FileNotFoundError:
            return  # no git here
        if done.returncode == 0 and done.stdout.strip():
            name = printable(done.stdout.splitlines()[0][3:])
            raise UsageError(f"{name} has changes that are not committed", "Commit them, or write anyway: --force.")


def _switched_off(folder: Path) -> dict[str, str]:
    """Settings under which git starts no program that the repository of ``folder`` names: it may be anybody's."""
    asked = ["config", "--null", "--show-scope", "--name-only", "--get-regexp", r"^filter\."]
    parts = _git(folder, asked, {}).stdout.split("\0")  # scope, name, scope, name, …; what is read is not run
    own = {name.rpartition(".")[0] for scope, name in zip(parts[::2], parts[1::2], strict=False) if scope in _OF_IT}
    filters = {f"{name}.{key}": value for name in own for key, value in _NO_FILTER.items()}
    return {"core.fsmonitor": "false", "core.hooksPath": os.devnull, **filters}


def _git(folder: Path, command: Sequence[str], settings: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    given = {"GIT_CONFIG_COUNT": str(len(settings)), "GIT_ALLOW_PROTOCOL": "none"}  # no object is fetched
    for number, (key, value) in enumerate(settings.items()):
        given |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return subprocess.run(
        ["git", *command], cwd=folder, env={**os.environ, **given},
        capture_output=True, text=True, check=False, encoding="utf-8", errors="surrogateescape",
    )  # fmt: skip


class Notebook:
    """The notebook of ``text``, a JSON document. Raises ValueError: it is none."""

    def __init__(self, text: str) -> None:
        self._text = text
        document = json.loads(text)
        if not isinstance(document, dict) or not isinstance(document.get("cells"), list):
            raise ValueError("no notebook with cells")
        self._spans: dict[int, tuple[int, int]] = {}
        self._codes: dict[int, str] = {}
        cells = _members(text, _spans(text, text.index("{"))["cells"][0])
        for number, (cell, (_, begin, _)) in enumerate(zip(document["cells"], cells, strict=True)):
            lines = cell.get("source") if isinstance(cell, dict) and cell.get("cell_type") == "code" else None
            code = "".join(lines) if isinstance(lines, list) and all(isinstance(line, str) for line in lines) else lines
            if isinstance(code, str) and code and _parses(_hidden(code)):
                self._codes[number] = code
                self._spans[number] = _spans(text, begin)["source"]
        self.code = "".join(f"{_CELL.format(number)}{_hidden(code)}\n" for number, code in self._codes.items())

    def with_code(self, code: str) -> str:
        """The document whose cells have ``code``; everything else stays, letter by letter."""
        parts = re.split(r"^# mpsprobe-cell (\d+)\n", code, flags=re.MULTILINE)
        # What stands before the first mark was put at the head: it belongs to the first cell.
        changed = dict(zip(map(int, parts[1::2]), parts[2::2], strict=True))
        if parts[0] and changed:
            first = min(changed)
            changed[first] = parts[0] + changed[first]
        made = self._text
        for number, text in sorted(changed.items(), reverse=True):
            shown = _shown(text.removesuffix("\n"))
            if shown != self._codes[number]:
                begin, end = self._spans[number]
                made = made[:begin] + _like(made[begin:end], shown) + made[end:]
        return made


def _members(text: str, at: int) -> Iterator[tuple[str | None, int, int]]:
    """Each value of the object or list of JSON that begins at ``at``: its key, and where it begins and ends."""
    decoder = json.JSONDecoder()
    closing = "}" if text[at] == "{" else "]"
    at = _behind(text, at + 1)
    while text[at] != closing:
        key = None
        if closing == "}":
            key, at = decoder.raw_decode(text, at)
            at = _behind(text, _behind(text, at) + 1)
        _, end = decoder.raw_decode(text, at)
        yield key, at, end
        at = _behind(text, end)
        if text[at] == ",":
            at = _behind(text, at + 1)


def _spans(text: str, at: int) -> dict[str | None, tuple[int, int]]:
    """Where each value of an object begins and ends; of a key that is there twice the last counts, as in ``json``."""
    return {key: (begin, end) for key, begin, end in _members(text, at)}


def _behind(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at


def _like(old: str, code: str) -> str:
    """``code`` as JSON, written as ``old`` is: a text or a list, on as many lines, with or without escapes."""
    plain = not old.isascii() or code.isascii()
    if old.startswith('"'):
        return json.dumps(code, ensure_ascii=not plain)
    lines = [json.dumps(line, ensure_ascii=not plain) for line in code.splitlines(keepends=True)]
    opening, closing = old[1 : _behind(old, 1)], old[len(old[:-1].rstrip()) : -1]
    return "[" + opening + f",{opening or ' '}".join(lines) + closing + "]"


def _hidden(code: str) -> str:
    """``code`` with what only IPython reads as comments."""
    if code.lstrip().startswith("%%") and not _OF_PYTHON.match(code):
        return "".join(f"{_MAGIC}{line}" for line in code.splitlines(keepends=True))
    lines = [_LINE.match(line.rstrip("\n")) for line in code.splitlines()]
    text = [
        line if hit is None else f"{hit[1]}pass {_MAGIC}{hit[2]}" if hit[1] else f"{_MAGIC}{hit[2]}"
        for line, hit in zip(code.splitlines(), lines, strict=True)
    ]
    return "\n".join(text) + ("\n" if code.endswith("\n") else "")


def _shown(code: str) -> str:
    return re.sub(rf"^(\s*)(pass )?{_MAGIC}", r"\1", code, flags=re.MULTILINE)


def _parses(code: str) -> bool:
    try:
        ast.parse(code)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return False
    return True
