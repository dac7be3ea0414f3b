"""Parquet for pandas, polars and DuckDB: the rows of ``profile_rows`` with types, the rest as metadata."""

from __future__ import annotations

import importlib.util
import io
import json
from typing import TYPE_CHECKING, Any

from mpsprobe.errors import MissingPackage
from mpsprobe_exporters.formats.profile_rows import COLUMNS, rows
from mpsprobe_exporters.supported import supported_report

if TYPE_CHECKING:
    from mpsprobe.schemas import ProfileReport
    from mpsprobe.schemas.report import Report

METADATA = b"mpsprobe"
LARGEST = 2**63 - 1
WHOLE = ("batch_size", "seq_len", "process", "sample", "time_ns", "steps")


class ParquetExporter:
    """One table. Its schema's metadata holds, under ``mpsprobe``, the report as JSON without its cells."""

    def __init__(self) -> None:
        # Looked for and not imported: it takes a tenth of a second, and the report may take hours before it is needed.
        if importlib.util.find_spec("pyarrow") is None:
            raise MissingPackage("the exporter 'parquet'", "mpsprobe-exporters[parquet]")

    def render(self, report: Report) -> bytes:
        import pyarrow
        import pyarrow.parquet

        read: ProfileReport = supported_report(report, "parquet")
        rest = json.dumps({**read.model_dump(mode="python"), "cells": []})
        types = dict.fromkeys(WHOLE, pyarrow.int64()) | {"value": pyarrow.float64(), "outlier": pyarrow.bool_()}
        fields = [(name, types.get(name, pyarrow.string())) for name in COLUMNS]
        held = [{name: _held(value, name) for name, value in row.items()} for row in rows(read)]
        schema = pyarrow.schema(fields, metadata={METADATA: rest.encode("ascii")})
        stream = io.BytesIO()
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(held, schema=schema), stream, compression="zstd")
        return stream.getvalue()


def _held(value: Any, name: str) -> Any:
    """``value`` as the column ``name`` can hold it: numbers of 64 bits, text without lone surrogates."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > LARGEST:
        return None  # no clock or allocator gives it; a float would be another number
    return float(value) if name == "value" and value is not None else value  # Arrow refuses what a double rounds
