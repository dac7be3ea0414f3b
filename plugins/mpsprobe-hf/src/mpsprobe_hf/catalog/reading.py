"""Reads files of named workloads: TOML whose form ``shared.toml`` and ``pipelines.toml`` explain at their tops.

Reading imports no library of models.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from typing import Any

from mpsprobe.errors import WorkloadError
from mpsprobe.suggestions import nearest, printable
from mpsprobe_hf.catalog.entry import BATCH_SIZE, Architecture, Component, Entry, Pipeline
from mpsprobe_hf.forms import KINDS, Family, Table, family_of, merged

TOP = ("component", "like", "name")
OF_INPUTS: dict[str, Any] = {
    **dict.fromkeys(("measures", "arguments"), dict),
    **dict.fromkeys(("more", "without"), list),
}
OF_ARCHITECTURE: dict[str, Any] = {
    **OF_INPUTS,
    **dict.fromkeys(("class", "loss", "call"), str),
    **dict.fromkeys(("requires", "notes"), list),
    "parameters": int,
}
TEXTS = ("like", "family", "summary", "checkpoint", "configuration", "seq_unit")
LENGTHS = ("seq_len", "shortest", "longest")
OF_NAME: dict[str, Any] = {
    **OF_ARCHITECTURE,
    **dict.fromkeys(TEXTS, str),
    **dict.fromkeys(LENGTHS, int),
    **dict.fromkeys(("columns", "sizes", "untied"), list),
    **dict.fromkeys(("config", "batch_size", "generate"), dict),
    "training": (dict, bool),
}
OF_PIPELINE: dict[str, Any] = {
    **dict.fromkeys(("like", "family", "summary", "checkpoint", "pipeline"), str),
    **dict.fromkeys(("components", "settings", "arguments", "small"), dict),
    "requires": list,
}
OF_COMPONENT: dict[str, Any] = {**dict.fromkeys(("like", "class"), str), **dict.fromkeys(("config", "small"), dict)}
OF_ARGUMENT: dict[str, Any] = {"kind": str, "shape": list, "high": (int, str), "if": str, "with": list}
NEEDED = ("family", "summary", "checkpoint", "class", "parameters")
NEEDED_OF_PIPELINE = ("family", "summary", "checkpoint", "pipeline", "components")
FAMILIES = ("text", "vision", "audio", "multimodal", "series", "table", "image", "video")
WORDS = {
    str: "a text",
    int: "a whole number",
    list: "a list",
    dict: "a table",
    (dict, bool): "a table or false",
    (int, str): "a whole number or a measure",
}


class Names:
    """The names of one file, with the components and kinds of names that it and the shared file describe."""

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
        self.kinds: Table = {**(shared.kinds if shared else {}), **document.get("like", {})}
        self.names: Table = document.get("name", {})

    def entries(self) -> dict[str, Entry | Pipeline]:
        """Every name of the file.

        Raises WorkloadError: a table is not as it should be; the message has the file and the line.
        """
        for name, table in self.kinds.items():
            self._table = f"like.{name}"
            self._check(table, {**OF_NAME, **OF_PIPELINE})
        try:
            return {name: self._entry(name, table) for name, table in self.names.items()}
        except RecursionError:
            raise self._error(f"[{self._table}] leads back to itself", "") from None

    def check(self, name: str, what: str, words: Iterable[str], allowed: Iterable[str]) -> None:
        """Raise ``WorkloadError``, with the line in the table of ``name``, unless all ``words`` are allowed there."""
        self._table = f"name.{name}"
        self._among(what, words, allowed)

    def _entry(self, name: str, own: Table) -> Entry | Pipeline:
        self._table = f"name.{name}"
        self._check(own, {**OF_NAME, **OF_PIPELINE})
        table = with_none(self._sized(self._like(own)))
        of_pipeline = "pipeline" in table
        for key in NEEDED_OF_PIPELINE if of_pipeline else NEEDED:
            if key not in table:
                raise self._error(f"[{self._table}] lacks '{key}'", "")
        self._check(table, OF_PIPELINE if of_pipeline else OF_NAME)
        self._among("family", [table["family"]], FAMILIES)
        return self._pipeline(name, table) if of_pipeline else self._model(name, table)

    def _pipeline(self, name: str, table: Table) -> Pipeline:
        components = {key: self._component(component) for key, component in table["components"].items()}
        more = {"components": components, "requires": tuple(table.get("requires", ()))}
        return Pipeline(**{"name": name, **table, **more})

    def _component(self, described: str | Table) -> Component:
        table = with_none(self._whole(described))
        return Component(table["class"], table.get("config", {}), table.get("small", {}))

    def _whole(self, described: str | Table) -> Table:
        """A component without what it is like."""
        own: Table = {"like": described} if isinstance(described, str) else described
        self._check_part("a component", own, OF_COMPONENT)
        if "like" in own:
            self._among("component", [own["like"]], self.components)
            table, self._table = self._table, f"component.{own['like']}"
            below = self._whole(self.components[own["like"]])
            self._table = table
            own = merged(below, {key: own[key] for key in own if key != "like"})
        if "class" not in own:
            raise self._error("a component lacks 'class'", "")
        return own

    def _model(self, name: str, table: Table) -> Entry:
        training = table.get("training", {})
        # What inference is, with what `training` says; notes are of one phase only.
        taught = merged({key: table[key] for key in OF_ARCHITECTURE if key in table and key != "notes"}, training or {})
        entry = Entry(
            name=name,
            model_type=table["class"].partition("/")[0],
            config=table.get("config", {}),
            inference=self._architecture(table),
            training=None if training is False else self._architecture(taught),
            generate=self._own(merged(table, table.get("generate", {}))),
            batch_size={**BATCH_SIZE, **table.get("batch_size", {})},
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

    def _own(self, table: Table) -> Family:
        for argument in table.get("arguments", {}).values():
            self._check_part("an argument", argument, {**dict.fromkeys(argument, object), **OF_ARGUMENT})
            for key in ("kind", "shape"):
                if key not in argument:
                    raise self._error(f"an argument lacks '{key}'", "arguments")
            self._among("kind of input", [argument["kind"]], KINDS)
        return family_of({key: table[key] for key in OF_INPUTS if key in table}, f"{self.path} [{self._table}]")

    def _architecture(self, table: Table) -> Architecture:
        model_class = table["class"].partition("/")[2]
        if not model_class:
            raise self._error("'class' is not TYPE/CLASS, for example bert/BertModel", "class")
        return Architecture(
            model_class,
            table["parameters"],
            self._own(table),
            requires=tuple(table.get("requires", ())),
            notes=tuple(table.get("notes", ())),
            **{key: table[key] for key in ("loss", "call") if key in table},
        )

    def _check(self, table: Table, form: Table) -> None:
        inside = [(table.get("training"), OF_ARCHITECTURE), (table.get("generate"), OF_INPUTS)]
        for words, allowed in ((table, form), *((part, of) for part, of in inside if isinstance(part, dict))):
            self._among("key", words, allowed)
            for key, value in words.items():
                kind = allowed[key]
                if value is True or (value is False and kind is int) or not isinstance(value, kind):
                    raise self._error(f"'{key}' is not {WORDS[kind]}", key)
        self._among("phase", table.get("batch_size", {}), ("inference", "training"))

    def _check_part(self, what: str, part: object, form: Table) -> None:
        if not isinstance(part, dict):
            raise self._error(f"{what} is not a table", str(part))
        self._among(f"key of {what}", part, form)
        for key, value in part.items():
            if form[key] is not object and (isinstance(value, bool) or not isinstance(value, form[key])):
                raise self._error(f"'{key}' of {what} is not {WORDS[form[key]]}", key)

    def _check_sizes(self, entry: Entry) -> None:
        parameters = [entry.architecture(phase).parameters for phase in entry.phases]
        if not all(isinstance(size, int) for size in entry.batch_size.values()):
            raise self._error("'batch_size' is not a whole number for each phase", "batch_size")
        shortest = 1 if entry.shortest is None else entry.shortest
        if min(*parameters, *entry.batch_size.values(), shortest) < 1:
            raise self._error("'parameters', 'batch_size' and 'shortest' are at least 1", "parameters")
        if entry.seq_len is not None and not shortest <= entry.seq_len <= (entry.longest or entry.seq_len):
            raise self._error("'seq_len' is not between 'shortest' and 'longest'", "seq_len")

    def _among(self, what: str, words: Iterable[str], allowed: Iterable[str]) -> None:
        for word in words:
            if word not in allowed:
                near = nearest(str(word), allowed)
                right = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(allowed)}"
                raise self._error(f"unknown {what} '{printable(str(word))}'; {right}", str(word))

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


def with_none(value: Any) -> Any:
    """``value`` with ``None`` for each ``"$none"``, which TOML has no word for."""
    if isinstance(value, dict):
        return {key: with_none(inner) for key, inner in value.items()}
    return None if value == "$none" else value
