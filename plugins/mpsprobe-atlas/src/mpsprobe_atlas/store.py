"""The store of an atlas: one SQLite file with a row for each workload, size, phase and dtype.

A row is durable as soon as it is added (WAL, ``synchronous=FULL``), so that whatever is killed loses no finished row.
A package ships the bodies of several answers as one block, which takes less room (``ship``).
One process writes at a time: it holds a lock on a second, empty database next to the store, which the system gives up
with the process. Others may read meanwhile.
"""

# ruff: noqa: PTH100, PTH108, PTH110, PTH112, PTH113, PTH120
# Importing pathlib costs more than to read an answer.
from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

from mpsprobe.errors import MpsprobeError, OutputError, ReportError, UsageError
from mpsprobe.suggestions import printable
from mpsprobe_atlas.answers import Answers, compressed, decompressed, for_shipping, joined, unpack

if TYPE_CHECKING:
    from pathlib import Path

APPLICATION = 0x6D707341  # "mpsA"
FORMAT = 1
LOCK = ".lock"
PLAIN = frozenset(b"/:._-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
"""The bytes of a path that an address has as they are."""
BLOCK = 6_000_000  # bytes of text that are compressed together: more take longer to read, and little less room
SWEEP_ANEW = "Name another file, or delete this one and sweep anew."
_SCHEMA = """
CREATE TABLE about (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE rows (
    id INTEGER PRIMARY KEY, workload TEXT NOT NULL, size TEXT NOT NULL, phase TEXT NOT NULL, dtype TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('answered', 'failed')), error TEXT, hint TEXT, seconds REAL NOT NULL,
    peak_bytes INTEGER, attempts INTEGER NOT NULL, made TEXT NOT NULL, architecture TEXT, parameters INTEGER,
    answer BLOB, block INTEGER, start INTEGER, UNIQUE (workload, size, phase, dtype)
);
CREATE TABLE blocks (id INTEGER PRIMARY KEY, data BLOB NOT NULL);
"""


class Key(NamedTuple):
    """What a row is about."""

    workload: str
    size: str
    phase: str
    dtype: str


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
    answer: bytes | None = None  # what answers.pack made of its reports; None in a list of rows

    @property
    def key(self) -> Key:
        return Key(self.workload, self.size, self.phase, self.dtype)


_COLUMNS = [one.name for one in fields(Row)]
_WITHOUT_ANSWER = ", ".join(_COLUMNS[:-1])
_ALL = ", ".join([*_COLUMNS, "block", "start"])


class Store:
    """A store, open for reading. Use it in ``with``.

    One that is ``unchanging`` nobody can be writing: data of a package, in a folder where nothing may be written.
    """

    def __init__(self, path: str | Path, *, unchanging: bool = False) -> None:
        self.path = os.fspath(path)
        self._shown = printable(self.path)
        if not os.path.isfile(self.path):
            raise ReportError(f"there is no atlas {self._shown}", "Make it: mpsprobe atlas sweep -o FILE.")
        with self._said("read"):
            self._connect(f"mode=ro{'&immutable=1' if unchanging else ''}")
            self._check()

    def _connect(self, how: str) -> None:
        self._blocks: dict[int, bytes] = {}
        path = os.path.abspath(self.path).replace(os.sep, "/")
        quoted = "".join(chr(one) if one in PLAIN else f"%{one:02x}" for one in os.fsencode(path))
        root = "" if quoted.startswith("/") else "/"  # before the letter of a drive
        self._database = sqlite3.connect(f"file://{root}{quoted}?{how}", uri=True, isolation_level=None, timeout=30)

    def _check(self) -> None:
        try:
            if self._value("PRAGMA application_id") != APPLICATION:
                raise ReportError(f"{self._shown} is no atlas of mpsprobe", SWEEP_ANEW)
            if self._value("PRAGMA user_version") > FORMAT:
                raise ReportError(f"{self._shown} was written by a newer mpsprobe-atlas", "Update mpsprobe-atlas.")
            self._database.execute(f"SELECT {_ALL} FROM rows LIMIT 0")
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
        """What the sweep wrote about itself: versions, the digest of rules and tables, releases, its plan."""
        with self._said("read"):
            return {key: json.loads(value) for key, value in self._database.execute("SELECT key, value FROM about")}

    def rows(self) -> list[Row]:
        """Every row without its answer, by workload."""
        order = "ORDER BY workload, size, phase, dtype"
        with self._said("read"):
            return [Row(*one) for one in self._database.execute(f"SELECT {_WITHOUT_ANSWER} FROM rows {order}")]

    def states(self) -> list[tuple[str, str, str, str, str]]:
        """Workload, size, phase, dtype and state of every row, in the order of ``rows``: a tenth of what those take."""
        with self._said("read"):
            return sorted(self._database.execute("SELECT workload, size, phase, dtype, state FROM rows"))

    def row(self, workload: str, size: str, phase: str, dtype: str) -> Row | None:
        asked = f"SELECT {_ALL} FROM rows WHERE workload = ? AND size = ? AND phase = ? AND dtype = ?"
        with self._said("read"):
            found = self._database.execute(asked, (workload, size, phase, dtype)).fetchone()
            return None if found is None else self._with_body(*found)

    def heads(self) -> Iterator[Row]:
        """Every row with an answer of which the head alone can be read: ``findings`` and ``fits``, no report."""
        with self._said("read"):
            for *columns, block, _ in self._database.execute(f"SELECT {_ALL} FROM rows WHERE state = 'answered'"):
                yield Row(*columns) if block is None else replace(Row(*columns), answer=joined(columns[-1], b""))

    def _with_body(self, *columns: Any) -> Row:
        """A row whose answer has its reports, also where those are a part of a block."""
        *columns_of_row, block, start = columns
        row = Row(*columns_of_row)
        if block is None or row.answer is None:
            return row
        end = start + unpack(joined(row.answer, b"")).length
        if block not in self._blocks or len(self._blocks[block]) < end:
            asked = "SELECT data FROM blocks WHERE id = ?"
            most = -1 if block in self._blocks else end  # a second row of it: then all are asked for
            self._blocks = {block: decompressed(self._database.execute(asked, (block,)).fetchone()[0], most)}
        return replace(row, answer=joined(row.answer, self._blocks[block][start:end]))

    def _value(self, asked: str) -> Any:
        return self._database.execute(asked).fetchone()[0]

    @contextmanager
    def _said(self, what: str) -> Iterator[None]:
        """SQLite's errors in words."""
        try:
            yield
        except sqlite3.Error as error:
            raise self._in_words(error, what) from error

    def _in_words(self, error: sqlite3.Error, what: str) -> MpsprobeError:
        name = getattr(error, "sqlite_errorname", "")
        if name.startswith(("SQLITE_NOTADB", "SQLITE_CORRUPT")) or "no such" in str(error):
            damaged = "is damaged" if name.startswith("SQLITE_CORRUPT") else "is no atlas of mpsprobe"
            return ReportError(f"{self._shown} {damaged}: {error}", SWEEP_ANEW)
        kind = ReportError if what == "read" else OutputError
        hint = None
        if name.startswith("SQLITE_FULL"):
            hint = "The disk is full. Every row up to now is there: make room, and start the same sweep again."
        return kind(f"cannot {what} {self._shown}: {error}", hint)


class WritableStore(Store):
    """A store, open for one writer, which makes the file where there is none.

    ``about`` is what ``Store.about`` gives. A store that exists has to have these versions, tables and releases.
    """

    def __init__(self, path: str | Path, about: Mapping[str, Any]) -> None:
        self.path = os.fspath(path)
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
            for key, what in (("versions", "versions"), ("tables", "rules or tables"), ("releases", "releases")):
                before, now = known.get(key), json.loads(json.dumps(about.get(key)))
                if key in known and before != now:
                    raise UsageError(f"{self._shown} was made with other {what}{_different(before, now)}", SWEEP_ANEW)
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

    def add(self, row: Row, block: int | None = None, start: int | None = None) -> None:
        """Add a row, durable when this returns; one about the same is replaced.

        ``block``: where the reports of its answer are, from the byte ``start`` on.
        """
        columns = (*astuple(row), block, start)
        with self._said("write"):
            marks = ", ".join("?" * len(columns))
            self._database.execute(f"INSERT OR REPLACE INTO rows ({_ALL}) VALUES ({marks})", columns)

    def _add_block(self, block: Sequence[tuple[Row, Answers]]) -> None:
        """Rows of one block, the shortest answer first: what stands in front is all that is read for a row."""
        shortest = sorted(block, key=lambda one: one[1].length)
        with self._said("write"):
            text = compressed(answers.body for _, answers in shortest)
            number = self._database.execute("INSERT INTO blocks (data) VALUES (?)", (text,)).lastrowid
        start = 0
        for row, answers in shortest:
            self.add(replace(row, answer=answers.head), number, start)
            start += answers.length

    def close(self) -> None:
        super().close()
        self._lock.close()


def _different(before: Any, now: Any) -> str:
    if not (isinstance(before, dict) and isinstance(now, dict)):
        return ""
    names = [name for name in {**before, **now} if before.get(name) != now.get(name)]
    return f" ({'; '.join(f'{name} {before.get(name)}, now {now.get(name)}' for name in names)})"


def ship(path: str | Path, target: str | Path) -> None:
    """Write what a package ships of the store at ``path``: one small file, for folders where nothing may be written.

    Bodies of answers are compressed in blocks of ``BLOCK``: those of neighbours by name have much in common. What
    is left out says ``for_shipping``.
    """
    if os.path.exists(target):
        raise OutputError(f"{printable(str(target))} is there already", "Name a file that is not.")
    with Store(path) as store, WritableStore(target, store.about()) as copy:
        block: list[tuple[Row, Answers]] = []
        for listed in store.rows():
            row = store.row(*listed.key)
            if row is None or row.answer is None:
                copy.add(listed)
                continue
            answers = for_shipping(unpack(row.answer))
            if block and sum(one.length for _, one in block) + answers.length > BLOCK:
                copy._add_block(block)
                block = []
            block.append((row, answers))
        copy._add_block(block)
        with copy._said("write"):
            copy._database.execute("PRAGMA journal_mode = DELETE")
            copy._database.execute("VACUUM")
    os.unlink(f"{target}{LOCK}")
