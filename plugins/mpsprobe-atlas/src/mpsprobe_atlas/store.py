"""The store of an atlas: one SQLite file with a row for each workload, size, phase and dtype.

A row is durable as soon as it is added (WAL, ``synchronous=FULL``), so that whatever is killed loses no finished row.
A package ships a folder: such a file as index, without answers, and blocks of the answers of several rows, which take
less room together (``shipping.py``).
One process writes at a time: it holds a lock on a second, empty database next to the store, which the system gives up
with the process. Others may read meanwhile.
"""

# ruff: noqa: PTH100, PTH112, PTH113, PTH118, PTH120, PTH123
# Importing pathlib costs more than to read an answer.
from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass, fields, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

from mpsprobe.errors import MpsprobeError, OutputError, ReportError, UsageError
from mpsprobe.suggestions import printable
from mpsprobe_atlas.answers import LARGEST_BODY, WRONG, decompressed, joined

if TYPE_CHECKING:
    from pathlib import Path

APPLICATION = 0x6D707341  # "mpsA"
FORMAT = 2
LOCK = ".lock"
INDEX = "index.sqlite"
"""Of a shipped folder; its blocks have the names that the index says, and this ending."""
ENDING = ".lzma"
KEPT = 4
"""Blocks that stay read: rows that follow each other are in few."""
PLAIN = frozenset(b"/:._-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
"""The bytes of a path that an address has as they are."""
SWEEP_ANEW = "Name another file, or delete this one and sweep anew."
_SCHEMA = """
CREATE TABLE about (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE rows (
    id INTEGER PRIMARY KEY, workload TEXT NOT NULL, size TEXT NOT NULL, phase TEXT NOT NULL, dtype TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('answered', 'failed')), error TEXT, hint TEXT, seconds REAL NOT NULL,
    peak_bytes INTEGER, attempts INTEGER NOT NULL, made TEXT NOT NULL, architecture TEXT, parameters INTEGER,
    entries TEXT, rules INTEGER, answer BLOB, UNIQUE (workload, size, phase, dtype)
);
CREATE TABLE rules (id INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE);
CREATE TABLE blocks (name TEXT PRIMARY KEY, heads INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE parts (
    row INTEGER, number INTEGER, block TEXT NOT NULL, place INTEGER NOT NULL, start INTEGER NOT NULL,
    PRIMARY KEY (row, number)
) WITHOUT ROWID
"""


_TABLES = frozenset(statement.strip() for statement in _SCHEMA.split(";"))
LARGEST_VALUE = 2**28
"""Bytes of one text or answer; SQLite reads no larger one."""


class Key(NamedTuple):
    """What a row is about."""

    workload: str
    size: str
    phase: str
    dtype: str


Asked = tuple[Key, Sequence[str]]
"""A row, and the releases of torch that it is to be worked out for, oldest first."""


@dataclass(frozen=True, slots=True)
class Row:
    workload: str
    size: str
    phase: str
    dtype: str
    state: Literal["answered", "failed"]  # failed: there is no answer, but an error with its hint
    error: str | None = None
    hint: str | None = None
    seconds: float = 0.0  # that it took
    peak_bytes: int | None = None  # the most memory that its process had; None where that was not seen
    attempts: int = 1  # how often it was tried
    made: str = ""  # when, in UTC, as ISO 8601
    architecture: str | None = None  # class of the model
    parameters: int | None = None  # how many numbers they are
    entries: str | None = None  # the digest of the data files' entries about its operators
    rules: str | None = None  # the other digests by which it was made, as JSON (`sweeping.rules_of`)
    answer: bytes | None = None  # what answers.pack made of its reports; None in a list of rows

    @property
    def key(self) -> Key:
        return Key(self.workload, self.size, self.phase, self.dtype)

    def __post_init__(self) -> None:
        """A column of SQLite holds whatever was put there."""
        for name, kind in zip(_COLUMNS, _KINDS, strict=True):
            if not isinstance(getattr(self, name), kind):
                raise TypeError(f"{name} is {type(getattr(self, name)).__name__}")


_COLUMNS = [field.name for field in fields(Row)]
_KINDS = (
    *[str] * 5, *[str | None] * 2, float | int, int | None, int, str, str | None, int | None, *[str | None] * 2,
    bytes | None,
)  # fmt: skip
_OF_A_ROW = ", ".join(["rows.id", *_COLUMNS[:-2], "rules.text"])
_ROWS = "rows LEFT JOIN rules ON rows.rules = rules.id"


class Store:
    """A store, open for reading: a file, or a folder that a package ships. Use it in ``with``.

    Nobody can be writing a folder: nothing may be written where packages are.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = os.fspath(path)
        self._shown = printable(self.path)
        self.folder = self.path if os.path.isdir(self.path) else None
        if self.folder is not None:
            self.path = os.path.join(self.folder, INDEX)
        if not os.path.isfile(self.path):
            raise ReportError(f"there is no atlas {self._shown}", "Make it: mpsprobe atlas sweep -o FILE.")
        with self._said("read"):
            self._connect("mode=ro" if self.folder is None else "mode=ro&immutable=1")
            self._check()

    def _connect(self, how: str) -> None:
        self._heads, self._text = lru_cache(KEPT)(self._read_heads), lru_cache(KEPT)(self._read)
        path = os.path.abspath(self.path).replace(os.sep, "/")
        quoted = "".join(chr(byte) if byte in PLAIN else f"%{byte:02x}" for byte in os.fsencode(path))
        root = "" if quoted.startswith("/") else "/"  # before the letter of a drive
        self._database = sqlite3.connect(f"file://{root}{quoted}?{how}", uri=True, isolation_level=None, timeout=30)
        self._database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LARGEST_VALUE)

    def _check(self) -> None:
        try:
            if self._value("PRAGMA application_id") != APPLICATION:
                raise ReportError(f"{self._shown} is no atlas of mpsprobe", SWEEP_ANEW)
            if self._value("PRAGMA user_version") > FORMAT:
                raise ReportError(f"{self._shown} was written by a newer mpsprobe-atlas", "Update mpsprobe-atlas.")
            # A view, a trigger or a generated column would be code of whoever made the file.
            made = self._database.execute("SELECT name, sql FROM sqlite_master WHERE sql NOT NULL")
            foreign = next((name for name, sql in made if sql.strip() not in _TABLES), None)
            if foreign is not None:
                raise ReportError(
                    f"{self._shown} is no atlas of mpsprobe: it has its own {printable(foreign)}", SWEEP_ANEW
                )
            self._database.execute(f"SELECT {_OF_A_ROW}, answer FROM {_ROWS} LIMIT 0")
        except BaseException:
            self._database.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        self._database.close()

    def about(self) -> dict[str, Any]:
        """What the last sweep wrote about itself: versions, releases, its plan."""
        with self._said("read"):
            return {key: json.loads(value) for key, value in self._database.execute("SELECT key, value FROM about")}

    def rows(self) -> list[Row]:
        """Every row without its answer, by workload."""
        order = "ORDER BY workload, size, phase, dtype"
        with self._said("read"):
            found = self._database.execute(f"SELECT {_OF_A_ROW} FROM {_ROWS} {order}")
            return [Row(*columns) for _, *columns in found]

    def whole_rows(self) -> Iterator[Row]:
        """Every row with its answer, by workload; one at a time is read."""
        for listed in self.rows():
            row = self.row(*listed.key)
            assert row is not None
            yield row

    def states(self) -> list[tuple[str, str, str, str, str]]:
        """Workload, size, phase, dtype and state of every row, in the order of ``rows``: a tenth of what those take."""
        with self._said("read"):
            return sorted(self._database.execute("SELECT workload, size, phase, dtype, state FROM rows"))

    def row(self, workload: str, size: str, phase: str, dtype: str) -> Row | None:
        asked = f"SELECT {_OF_A_ROW}, answer FROM {_ROWS} WHERE workload = ? AND size = ? AND phase = ? AND dtype = ?"
        with self._said("read"):
            found = self._database.execute(asked, (workload, size, phase, dtype)).fetchone()
            if found is None:
                return None
            number, *columns = found
            row = Row(*columns)
            if row.answer is not None or self.folder is None:
                return row
            segments = [self._segment(*part) for part in self._parts(number)]
            return replace(row, answer=b"".join(segments) or None)

    def heads(self) -> Iterator[Row]:
        """Every row with an answer of which the head alone can be read: ``findings`` and ``fits``, no report."""
        with self._said("read"):
            rows = self._database.execute(f"SELECT {_OF_A_ROW}, answer FROM {_ROWS} WHERE state = 'answered'")
            for number, *columns in rows:
                row = Row(*columns)
                if self.folder is not None:
                    heads = (self._heads(block)[place] for block, place, _ in self._parts(number))
                    row = replace(row, answer=b"".join(joined(json.dumps(head).encode(), b"") for head in heads))
                yield row

    def blocks_of(self, key: Key) -> list[str]:
        """The blocks that the segments of a row of a folder are in, in their order."""
        where = "workload = ? AND size = ? AND phase = ? AND dtype = ?"
        asked = f"SELECT block FROM parts JOIN rows ON parts.row = rows.id WHERE {where} ORDER BY parts.number"
        with self._said("read"):
            return [block for (block,) in self._database.execute(asked, key)]

    def _parts(self, number: int) -> list[tuple[str, int, int]]:
        """The segments of a row, oldest first: the block that each is in, the place of its head, where its body is."""
        asked = "SELECT block, place, start FROM parts WHERE row = ? ORDER BY number"
        return self._database.execute(asked, (number,)).fetchall()

    def _read_heads(self, block: str) -> list[dict[str, Any]]:
        """Of all segments in a block, which begins with them."""
        end = self._database.execute("SELECT heads FROM blocks WHERE name = ?", (block,)).fetchone()[0]
        answers: list[dict[str, Any]] = json.loads(self._read(block, end))
        return answers

    def _segment(self, block: str, place: int, start: int) -> bytes:
        head = self._heads(block)[place]
        return joined(json.dumps(head).encode(), self._text(block)[start : start + head["length"]])

    def _read(self, block: str, most: int = LARGEST_BODY) -> bytes:
        try:
            with open(os.path.join(self.folder or "", block + ENDING), "rb") as file:
                return decompressed(file.read(), most)
        except OSError as error:
            raise ReportError(f"{self._shown} is damaged: {error}", SWEEP_ANEW) from error

    def _value(self, asked: str) -> Any:
        return self._database.execute(asked).fetchone()[0]

    @contextmanager
    def _said(self, what: str) -> Iterator[None]:
        """SQLite's errors in words, and those of a file that somebody else has changed."""
        try:
            yield
        except WRONG as error:
            if what != "read":
                raise
            raise ReportError(f"{self._shown} is damaged: {printable(str(error))}", SWEEP_ANEW) from error
        except sqlite3.Error as error:
            raise self._in_words(error, what) from error

    def _in_words(self, error: sqlite3.Error, what: str) -> MpsprobeError:
        name = getattr(error, "sqlite_errorname", "")
        if name.startswith(("SQLITE_NOTADB", "SQLITE_CORRUPT")) or "no such" in str(error):
            damaged = "is damaged" if name.startswith("SQLITE_CORRUPT") else "is no atlas of mpsprobe"
            return ReportError(f"{self._shown} {damaged}: {error}", SWEEP_ANEW)
        kind = ReportError if what == "read" else OutputError
        hint = None
        if name.startswith("SQLITE_TOOBIG"):
            hint = f"A sound answer is smaller than {LARGEST_VALUE:,} bytes. {SWEEP_ANEW}"
        if name.startswith("SQLITE_FULL"):
            hint = "The disk is full. Every row up to now is there: make room, and start the same sweep again."
        return kind(f"cannot {what} {self._shown}: {error}", hint)


class WritableStore(Store):
    """A store, open for one writer, which makes the file where there is none.

    ``about`` is what ``Store.about`` gives. A store that exists has to have these versions.
    """

    def __init__(self, path: str | Path, about: Mapping[str, Any]) -> None:
        self.path, self.folder = os.fspath(path), None
        self._shown = printable(self.path)
        if not os.path.isdir(os.path.dirname(os.path.abspath(self.path))):
            raise OutputError(f"cannot write {self._shown}: its folder does not exist", "Make the folder first.")
        if os.path.isdir(self.path):
            raise OutputError(f"cannot write {self._shown}: it is a folder", "Name a file.")
        with self._said("write"):
            self._lock = self._locked()
            try:
                self._connect("mode=rwc")
                self._open(dict(about))
            except BaseException:
                self._lock.close()
                raise

    def _locked(self) -> sqlite3.Connection:
        lock = sqlite3.connect(f"{self.path}{LOCK}", isolation_level=None, timeout=0)
        try:
            lock.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError as error:
            lock.close()
            if not getattr(error, "sqlite_errorname", "").startswith("SQLITE_BUSY"):
                raise
            hint = "Wait for it, or name another file. It goes on where it was if you stop it."
            raise UsageError(f"another sweep is writing {self._shown}", hint) from error
        return lock

    def _open(self, about: dict[str, Any]) -> None:
        try:
            if not self._value("SELECT count(*) FROM sqlite_master") and not self._value("PRAGMA application_id"):
                self._database.execute("PRAGMA journal_mode = WAL")
                self._make(about)
            self._check()
            damage = self._value("PRAGMA quick_check(1)")
            if damage != "ok":
                raise ReportError(f"{self._shown} is damaged: {damage.splitlines()[-1]}", SWEEP_ANEW)
            self._database.execute("PRAGMA journal_mode = WAL")
            self._database.execute("PRAGMA synchronous = FULL")
            known = self.about()
            before, now = known.get("versions"), json.loads(json.dumps(about.get("versions")))
            if before is not None and before != now:
                raise UsageError(f"{self._shown} was made with other versions{_different(before, now)}", SWEEP_ANEW)
            if known != about:
                self._database.execute("BEGIN IMMEDIATE")
                self._describe(about)
                self._database.execute("COMMIT")
        except BaseException:
            self._database.close()
            raise

    def _make(self, about: Mapping[str, Any]) -> None:
        self._database.execute("BEGIN IMMEDIATE")
        for statement in _SCHEMA.split(";"):
            self._database.execute(statement)
        self._describe(about)
        self._database.execute(f"PRAGMA application_id = {APPLICATION}")
        self._database.execute(f"PRAGMA user_version = {FORMAT}")
        self._database.execute("COMMIT")

    def _describe(self, about: Mapping[str, Any]) -> None:
        described = [(key, json.dumps(value)) for key, value in about.items()]
        self._database.executemany("INSERT OR REPLACE INTO about VALUES (?, ?)", described)

    def add(self, row: Row) -> int:
        """Add a row, durable when this returns; one about the same is replaced. Returns its number."""
        with self._said("write"):
            if row.rules is not None:
                self._database.execute("INSERT OR IGNORE INTO rules (text) VALUES (?)", (row.rules,))
            values = ", ".join(
                "(SELECT id FROM rules WHERE text = ?)" if column == "rules" else "?" for column in _COLUMNS
            )
            added = f"INSERT OR REPLACE INTO rows ({', '.join(_COLUMNS)}) VALUES ({values})"
            number = self._database.execute(added, astuple(row)).lastrowid
        assert number is not None
        return number

    def add_block(self, name: str, heads: int, parts: Sequence[tuple[int, int, int, int]]) -> None:
        """Say that the block ``name`` begins with ``heads`` bytes of heads, and what it has.

        ``parts``: of each segment the number of its row, its number there, its place among the heads, and where in the
        text its body begins.
        """
        with self._said("write"):
            self._database.execute("INSERT INTO blocks VALUES (?, ?)", (name, heads))
            values = [(row, number, name, place, start) for row, number, place, start in parts]
            self._database.executemany("INSERT INTO parts VALUES (?, ?, ?, ?, ?)", values)

    def finish(self) -> None:
        """Make the file one that can be read where nothing may be written."""
        with self._said("write"):
            self._database.execute("PRAGMA journal_mode = DELETE")
            self._database.execute("VACUUM")

    def close(self) -> None:
        super().close()
        self._lock.close()


def _different(before: Any, now: Any) -> str:
    if not (isinstance(before, dict) and isinstance(now, dict)):
        return ""
    names = [name for name in {**before, **now} if before.get(name) != now.get(name)]
    return f" ({'; '.join(f'{name} {before.get(name)}, now {now.get(name)}' for name in names)})"
