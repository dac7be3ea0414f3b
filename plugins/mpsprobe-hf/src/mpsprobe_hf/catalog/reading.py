"""Reads files of named workloads: TOML whose form ``shared.toml`` explains at its top.

Reading imports neither torch nor transformers.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from typing import Any, get_args

from mpsprobe.errors import WorkloadError
from mpsprobe.suggestions import nearest, printable
from mpsprobe_hf.catalog.entry import BATCH_SIZE, Architecture, Component, Entry, Field, Kind, Pipeline

Table = Mapping[str, Any]

TOP = ("component", "input", "like", "name")
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
OF_PIPELINE: dict[str, Any] = {
    **dict.fromkeys(("like", "family", "summary", "checkpoint", "pipeline"), str),
    **dict.fromkeys(("components", "settings", "arguments", "small"), dict),
    "requires": list,
}
OF_INPUT: dict[str, Any] = {"like": str, "name": str, "kind": str, "shape": list}
OF_COMPONENT: dict[str, Any] = {**dict.fromkeys(("like", "class"), str), **dict.fromkeys(("config", "small"), dict)}
NEEDED = ("family", "summary", "checkpoint", "model_type", "class", "parameters", "inputs")
NEEDED_OF_PIPELINE = ("family", "summary", "checkpoint", "pipeline", "components")
FAMILIES = ("text", "vision", "audio", "multimodal", "series", "table", "image", "video")
DIMENSION = re.compile(r"[1-9]\d*|([1-9]\d*\*)?(batch|seq)")
WORDS = {str: "a text", int: "a whole number", list: "a list", dict: "a table", (dict, bool): "a table or false"}


class Names:
    """The names of one file, with the inputs, components and kinds of names that it and the shared file describe."""

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
        self.components: Table = {**(shared.components if shared else {}), **document.get("component", {})}
        self.inputs: Table = {**(shared.inputs if shared else {}), **document.get("input", {})}
        self.kinds: Table = {**(shared.kinds if shared else {}), **document.get("like", {})}
        self.names: Table = document.get("name", {})

    def entries(self) -> dict[str, Entry | Pipeline]:
        """Every name of the file.

        Raises:
            WorkloadError: a table is not as it should be; the message has the file and the line.
        """
        for name, table in self.kinds.items():
            self._table = f"like.{name}"
            self._check(table, {**OF_NAME, **OF_PIPELINE})
        try:
            return {name: self._entry(name, table) for name, table in self.names.items()}
        except RecursionError:
            raise self._error(f"[{self._table}] leads back to itself", "") from None

    def check(self, name: str, what: str, word: str, allowed: Iterable[str]) -> None:
        """Raise ``WorkloadError``, with the line in the table of ``name``, unless ``word`` is allowed there."""
        self._table = f"name.{name}"
        self._among(what, [word], allowed)

    def _entry(self, name: str, own: Table) -> Entry | Pipeline:
        self._table = f"name.{name}"
        self._check(own, {**OF_NAME, **OF_PIPELINE})
        table = self._sized(self._like(own))
        of_pipeline = "pipeline" in table
        for key in NEEDED_OF_PIPELINE if of_pipeline else NEEDED:
            if key not in table:
                raise self._error(f"[{self._table}] lacks '{key}'", "")
        table = self._filled(table, {"config": {}, **table, **table.get("with", {})})
        self._check(table, OF_PIPELINE if of_pipeline else OF_NAME)
        self._among("family", [table["family"]], FAMILIES)
        return self._pipeline(name, table) if of_pipeline else self._model(name, table)

    def _pipeline(self, name: str, table: Table) -> Pipeline:
        components = {key: self._component(one) for key, one in table["components"].items()}
        more = {"components": components, "requires": tuple(table.get("requires", ()))}
        return Pipeline(**{"name": name, **table, **more})

    def _component(self, described: str | Table) -> Component:
        table = self._filled(self._whole(described, "component", self.components, OF_COMPONENT, ("class",)), {})
        self._among("key of a component", table, OF_COMPONENT)
        return Component(table["class"], table.get("config", {}), table.get("small", {}))

    def _model(self, name: str, table: Table) -> Entry:
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
        """The table with what it is like below it; a component is in place of the one below."""
        if "like" not in own:
            return own
        self._among("kind of name", [own["like"]], self.kinds)
        below = self._like(self.kinds[own["like"]])
        both = merged(below, {key: own[key] for key in own if key != "like"})
        if "components" in both:
            both["components"] = {**below.get("components", {}), **own.get("components", {})}
        return both

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

    def _whole(self, described: str | Table, what: str, known: Table, kinds: Table, needed: tuple[str, ...]) -> Table:
        """An input or a component in full, without what it is like."""
        own: Table = {"like": described} if isinstance(described, str) else described
        article = "an" if what == "input" else "a"
        if not isinstance(own, dict):
            raise self._error(f"{article} {what} is neither a name nor a table", str(described))
        for key, kind in kinds.items():
            if key in own and not isinstance(own[key], kind):
                raise self._error(f"'{key}' of {article} {what} is not {WORDS[kind]}", key)
        if "like" in own:
            self._among(what, [own["like"]], known)
            below = self._whole(known[own["like"]], what, known, kinds, needed)
            own = merged(below, {key: own[key] for key in own if key != "like"})
        for key in needed:
            if key not in own:
                raise self._error(f"{article} {what} lacks '{key}'", str(own.get("name", "")))
        return own

    def _input(self, described: str | Table) -> Table:
        return self._whole(described, "input", self.inputs, OF_INPUT, ("name", "kind", "shape"))

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

    def _check(self, table: Table, form: Table) -> None:
        training = table.get("training")
        for words, allowed in ((table, form), (training if isinstance(training, dict) else {}, OF_TRAINING)):
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
        """``message`` with the line of ``word`` in the table that is read and those inside it, or of its head."""
        lines = self.text.splitlines()
        name = re.escape(self._table).replace(r"\.", r'\."?', 1)
        head, inside = re.compile(rf'\[{name}"?\]'), re.compile(rf'(?!\[)|\[{name}"?\.')
        first = next((number for number, line in enumerate(lines) if self._table and head.match(line)), 0)
        after = range(first, len(lines))
        end = next((number for number in after if number > first and not inside.match(lines[number])), len(lines))
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
