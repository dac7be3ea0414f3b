"""The settings that every schema shares, and the words by which fields say how several records become one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar, cast

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import PydanticSerializationError

from mpsprobe.declarations import resolve
from mpsprobe.suggestions import without_home

T = TypeVar("T")
Sum = Annotated[T, Field(json_schema_extra={"fold": "sum"})]
"""A field that is added up where several records become one (``mpsprobe.folding``)."""
Unite = Annotated[T, Field(json_schema_extra={"fold": "unite"})]
"""A field that then has what is distinct in all of them."""
First = Annotated[T, Field(json_schema_extra={"fold": "first"})]
"""A field that then is that of the first which has one. Fields without a word tell records apart."""
Local = Annotated[str, AfterValidator(without_home)]
"""Text in which a path of this machine may stand, as a person or an exception names it: reports are handed on."""


class Record(BaseModel):
    """Keys that this version does not know are kept verbatim, so that a newer report survives a round trip."""

    model_config = ConfigDict(extra="allow", frozen=True, allow_inf_nan=False, defer_build=True)
    folds: ClassVar[Mapping[str, str]] = {}
    """The word of each field that has one."""

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        extras = {name: field.json_schema_extra for name, field in cls.model_fields.items()}
        cls.folds = {name: str(extra["fold"]) for name, extra in extras.items() if isinstance(extra, dict)}

    def model_dump_json(self, **options: Any) -> str:
        """The record as JSON, also with halves of surrogate pairs, which names of files hold and pydantic refuses."""
        try:
            return super().model_dump_json(**options)
        except PydanticSerializationError:
            indent = options.pop("indent", None)
            return json.dumps(self.model_dump(mode="json", **options), indent=indent)

    @classmethod
    def model_validate_json(cls, json_data: str | bytes | bytearray, **options: Any) -> Self:
        """The record of such JSON."""
        try:
            return super().model_validate_json(json_data, **options)
        except ValidationError as error:
            if error.errors()[0]["type"] != "json_invalid":
                raise
            try:
                data = json.loads(json_data)
            except ValueError:
                raise error from None
            return cls.model_validate(data, **options)


class Exportable(Record):
    """A report, which exporters read. They are found by their names: no schema knows one."""

    kind: str = Field(description="What kind of report it is.")
    schema_version: Literal[1] = 1

    def to(self, name: str) -> str | bytes:
        """The report as the exporter called ``name`` writes it to a file: ``html``, ``markdown``, ``json``, …

        Raises:
            UsageError: there is no such exporter, it writes a folder, or it does not read this kind of report.
        """
        return cast("str | bytes", resolve("mpsprobe.exporting:exported")(self, name))

    def _repr_html_(self) -> str | None:
        """What a notebook shows, by the exporter ``html``; without it, that of ``print``."""
        return cast("str | None", resolve("mpsprobe.exporting:shown")(self, "html", "render_for_notebook"))

    def __str__(self) -> str:
        """What ``print`` shows: as on a terminal, by the exporter ``table``."""
        text = resolve("mpsprobe.exporting:shown")(self, "table", "render_for_terminal")
        return text.rstrip("\n") if text else repr(self)

    def __repr__(self) -> str:
        """The kind and the headline: all fields are thousands of characters."""
        headline = resolve("mpsprobe.exporting:shown")(self, "table", "headline")
        return f"<{type(self).__name__}{': ' if headline else ''}{headline or ''}>"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """What IPython shows, and a notebook that shows no HTML: what ``print`` does."""
        printer.text(str(self))

    def save(self, path: str | Path, name: str | None = None) -> str:
        """Write the report to ``path`` by the exporter called ``name``, and return where it went.

        Without a name the extension of ``path`` says which; ``.json`` is what ``mpsprobe.load_report`` reads.

        Raises:
            UsageError: as ``to``, but for folders.
            OutputError: it cannot be written.
        """
        return cast("str", resolve("mpsprobe.exporting:saved")(self, path, name))
