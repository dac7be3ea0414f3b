"""Reads files of named workloads: TOML whose form ``shared.toml`` explains at its top.

Reading imports neither torch nor transformers.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, get_args

from mpsprobe.errors import MissingPackage, WorkloadError
from mpsprobe.suggestions import nearest, printable
from mpsprobe_hf.catalog.entry import BATCH_SIZE, Architecture, Entry, Field, Kind

Table = Mapping[str, Any]

TOP = ("input", "like", "name")
OF_ARCHITECTURE: dict[str, Any] = {
    **dict.fromkeys(("class", "loss", "call"), str),
    **dict.fromkeys(("inputs", "requires", "notes"), list),
    "parameters": int,
}
OF_TRAINING = {**OF_ARCHITECTURE, "also": list}
TEXTS = ("like", "family", "summary", "checkpoint", "model_type", "configuration", "seq_unit")
LENGTHS = ("seq_len", "shortest", "longest")
OF_NAME: dict[str, Any] = {
    **OF_ARCHITECTURE,
    **dict.fromkeys(TEXTS, str),
    **dict.fromkeys(LENGTHS, int),
    **dict.fromkeys(("columns", "sizes", "prompt", "untied"), list),
    **dict.fromkeys(("with", "config", "batch_size"), dict),
    "training": (dict, bool),
}
OF_INPUT: dict[str, type] = {"like": str, "name": str, "kind": str, "shape": list}
NEEDED = ("family", "summary", "checkpoint", "model_type", "class", "parameters", "inputs")
FAMILIES = ("text", "vision", "audio", "multimodal", "series", "table")
DIMENSION = re.compile(r"[1-9]\d*|([1-9]\d*\*)?(batch|seq)")
WORDS = {str: "a text", int: "a whole number", list: "a list", dict: "a table", (dict, bool): "a table or false"}


class Names:
    """The names of one file, with the inputs and kinds of names that it and the shared file describe."""

    def __init__(self, text: str, path: str, shared: Names | None = None) -> None:
        self.text, self.path = text, path
        self._table = ""
        try:
            document = tomllib.loads(text)
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            raise WorkloadError(f"{path}: {error}") from None
        self._among("table", document, TOP)
        for word, tables in document.items():
            for name, table in (tables if isinstance(tables, dict) else {"": 0}).items():
                if not isinstance(table, dict):
                    raise self._error(f"[{word}.{printable(name or 'NAME')}] is not a table", name or word)
        self.inputs: Table = {**(shared.inputs if shared else {}), **document.get("input", {})}
        self.kinds: Table = {**(shared.kinds if shared else {}), **document.get("like", {})}
        self.names: Table = document.get("name", {})

    def entries(self) -> dict[str, Entry]:
        """Every name of the file.

        Raises:
            WorkloadError: a table is not as it should be; the message has the file and the line.
        """
        for name, table in self.kinds.items():
            self._table = f"like.{name}"
            self._check(table)
        try:
            return {name: self._entry(name, table) for name, table in self.names.items()}
        except RecursionError:
            raise self._error(f"[{self._table}] leads back to itself", "") from None

    def check_models(self) -> None:
        """That the installed transformers has each model type and class, which are read, and each loss and call is one.

        Raises:
            WorkloadError: it has not; the message has the file and the line.
        """
        from mpsprobe_hf.calls import CALLS
        from mpsprobe_hf.losses import LOSSES

        spec = find_spec("transformers")
        if spec is None or spec.origin is None:
            raise MissingPackage("a file of names", "transformers")
        models = Path(spec.origin).parent / "models"
        types = sorted(folder.name for folder in models.iterdir() if folder.is_dir())
        for name, entry in self.entries().items():
            self._table = f"name.{name}"
            self._among("model type", [entry.model_type], types)
            modules = (models / entry.model_type).glob("modeling_*.py")
            classes = re.findall(r"^class (\w+)", "".join(one.read_text(encoding="utf-8") for one in modules), re.M)
            for architecture in map(entry.architecture, entry.phases):
                self._among("class", [architecture.model_class], classes)
                self._among("loss", [architecture.loss], LOSSES)
                self._among("call", [architecture.call], ("", *CALLS))

    def _entry(self, name: str, own: Table) -> Entry:
        self._table = f"name.{name}"
        self._check(own)
        table = self._sized(self._like(own))
        for key in NEEDED:
            if key not in table:
                raise self._error(f"[{self._table}] lacks '{key}'", "")
        table = self._filled(table, {"config": {}, **table, **table.get("with", {})})
        self._check(table)
        self._among("family", [table["family"]], FAMILIES)
        taught = self._training(table)
        entry = Entry(
            name=name,
            config=table.get("config", {}),
            inference=self._architecture(table),
            training=None if taught is None else self._architecture(taught),
            batch_size={**BATCH_SIZE, **table.get("batch_size", {})},
            prompt=self._fields(table.get("prompt", ())),
            untied=tuple(table.get("untied", ())),
            **{key: table[key] for key in (*TEXTS[1:], *LENGTHS) if key in table},
        )
        self._check_sizes(entry)
        return entry

    def _like(self, own: Table) -> Table:
        """The table with what it is like below it."""
        if "like" not in own:
            return own
        self._among("kind of name", [own["like"]], self.kinds)
        return merged(self._like(self.kinds[own["like"]]), {key: own[key] for key in own if key != "like"})

    def _sized(self, table: Table) -> Table:
        """The table with each of ``sizes`` where ``columns`` says."""
        sizes, columns = table.get("sizes", []), [str(column) for column in table.get("columns", [])]
        if sizes and len(sizes) != len(columns):
            raise self._error(f"'sizes' has {len(sizes)} values, not {len(columns)}: {', '.join(columns)}", "sizes")
        sized: dict[str, Any] = {}
        for column, size in zip(columns, sizes, strict=False):
            *parts, last = column.split(".")
            value: Any = {last: size}
            for part in reversed(parts):
                value = {part: value}
            sized = merged(sized, value)
        return merged(sized, table)

    def _training(self, table: Table) -> Table | None:
        """What inference is, with what ``training`` says; notes are of one phase only."""
        own = table.get("training", {})
        if own is False:
            return None
        taught = {key: table[key] for key in OF_ARCHITECTURE if key in table and key != "notes"} | own
        return {**taught, "inputs": [*taught["inputs"], *own.get("also", ())]}

    def _architecture(self, table: Table) -> Architecture:
        return Architecture(
            table["class"],
            self._fields(table["inputs"]),
            table["parameters"],
            requires=tuple(table.get("requires", ())),
            notes=tuple(table.get("notes", ())),
            **{key: table[key] for key in ("loss", "call") if key in table},
        )

    def _fields(self, inputs: Iterable[Table]) -> tuple[Field, ...]:
        made = []
        for one in inputs:
            self._among("kind of input", [one["kind"]], get_args(Kind))
            for dimension in one["shape"]:
                if not DIMENSION.fullmatch(str(dimension)):
                    shown = printable(str(dimension))
                    raise self._error(
                        f"'{shown}' is no dimension: a number, batch, seq, or a multiple such as 4*batch", shown
                    )
            if type(one.get("high", 0)) is not int:
                raise self._error("'high' of an input is not a whole number", "high")
            settings = {key: frozen(one[key]) for key in one if key not in {*OF_INPUT, "high"}}
            made.append(Field(one["name"], one["kind"], tuple(one["shape"]), one.get("high", 0), settings))
        return tuple(made)

    def _input(self, described: str | Table) -> Table:
        """An input in full, without what it is like."""
        own: Table = {"like": described} if isinstance(described, str) else described
        if not isinstance(own, dict):
            raise self._error("an input is neither a name nor a table", str(described))
        for key, kind in OF_INPUT.items():
            if key in own and not isinstance(own[key], kind):
                raise self._error(f"'{key}' of an input is not {WORDS[kind]}", key)
        if "like" in own:
            self._among("input", [own["like"]], self.inputs)
            own = {**self._input(self.inputs[own["like"]]), **{key: own[key] for key in own if key != "like"}}
        for key in ("name", "kind", "shape"):
            if key not in own:
                raise self._error(f"an input lacks '{key}'", str(own.get("name", "")))
        return own

    def _filled(self, value: Any, scope: Table, key: str = "") -> Any:
        """``value`` with inputs in full and what each ``$word`` stands for."""
        if isinstance(value, dict):
            return {key: self._filled(one, scope, key) for key, one in value.items()}
        if isinstance(value, list):
            described = key in {"inputs", "also", "prompt"}
            return [self._filled(self._input(one) if described else one, scope) for one in value]
        if not isinstance(value, str) or not value.startswith("$"):
            return value
        if value == "$none":
            return None
        found: Any = scope
        for part in value[1:].split("."):
            words = found if isinstance(found, Mapping) else ()
            self._among("value", [part], words, value)
            found = found[part]
        return self._filled(found, scope)

    def _check(self, table: Table) -> None:
        for words, allowed in ((table, OF_NAME), (table.get("training") or {}, OF_TRAINING)):
            self._among("key", words, allowed)
            for key, value in words.items():
                kind = allowed[key]
                wrong = value is True or (value is False and kind is int)
                if wrong or not (
                    isinstance(value, kind) or (kind is int and isinstance(value, str) and value.startswith("$"))
                ):
                    raise self._error(f"'{key}' is not {WORDS[kind]}", key)
        self._among("phase", table.get("batch_size", {}), ("inference", "training"))

    def _check_sizes(self, entry: Entry) -> None:
        parameters = [entry.architecture(phase).parameters for phase in entry.phases]
        if not all(isinstance(size, int) for size in entry.batch_size.values()):
            raise self._error("'batch_size' is not a whole number for each phase", "batch_size")
        if min(*parameters, *entry.batch_size.values(), entry.shortest) < 1:
            raise self._error("'parameters', 'batch_size' and 'shortest' are at least 1", "parameters")
        if entry.seq_len is not None and not entry.shortest <= entry.seq_len <= (entry.longest or entry.seq_len):
            raise self._error("'seq_len' is not between 'shortest' and 'longest'", "seq_len")

    def _among(self, what: str, words: Iterable[str], allowed: Iterable[str], shown: str = "") -> None:
        for word in words:
            if word not in allowed:
                near = nearest(str(word), allowed)
                right = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(allowed)}"
                raise self._error(f"unknown {what} '{printable(str(shown or word))}'; {right}", str(word))

    def _error(self, message: str, word: str) -> WorkloadError:
        """``message`` with the line of ``word`` in the table that is read, or of the table's head."""
        lines = self.text.splitlines()
        head = re.compile(r"\[" + re.escape(self._table).replace(r"\.", r'\."?', 1) + r'"?\]')
        first = next((number for number, line in enumerate(lines) if self._table and head.match(line)), 0)
        after = range(first, len(lines))
        end = next((number for number in after if number > first and lines[number].startswith("[")), len(lines))
        has_word = re.compile(rf"(?<![\w-]){re.escape(word)}(?![\w-])")
        line = next(
            (number for number in range(first + bool(self._table), end) if word and has_word.search(lines[number])),
            first,
        )
        return WorkloadError(f"{self.path}:{line + 1}: {message}")


def merged(below: Table, above: Table) -> dict[str, Any]:
    """``above`` over ``below``, table by table."""
    tables = {key for key in above if isinstance(above[key], dict) and isinstance(below.get(key), dict)}
    return {**below, **above, **{key: merged(below[key], above[key]) for key in tables}}


def frozen(value: Any) -> Any:
    """Lists as tuples."""
    return tuple(frozen(one) for one in value) if isinstance(value, list) else value
