"""A store as rows for analysts: what each release does with each workload, and the operators that it does not run."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mpsprobe.errors import MissingPackage, OutputError
from mpsprobe.output import deliver
from mpsprobe_atlas.reading import Judged, Run, judged
from mpsprobe_atlas.store import Store

RUNS, OPERATORS = "runs", "operators"


def about_row(one: Judged) -> dict[str, Any]:
    """What both kinds of rows begin with."""
    row = one.row
    return {
        "workload": row.workload,
        "architecture": row.architecture,
        "size": row.size,
        "phase": row.phase,
        "dtype": row.dtype,
    }


def runs(one: Judged) -> Iterator[dict[str, Any]]:
    """A row for each release; one without a release where there is no answer."""
    if not one.runs:
        yield _run_row(one, None, Run({}), "failed", one.row.error)
    for release, run in one.runs.items():
        yield _run_row(one, release, run, run.state, run.failure)


def _run_row(one: Judged, release: str | None, run: Run, state: str, error: str | None) -> dict[str, Any]:
    fits = one.fits.get(release or "", {})
    return {
        **about_row(one),
        "parameters": one.row.parameters,
        "torch": release,
        "state": state,
        "error": error,
        "operators": run.operators,
        "calls": run.calls,
        "not_native": len(run.verdicts),
        "advisories": list(run.advisories),
        "peak_bytes": run.peak_bytes,
        "fits_bytes": [memory for memory, answer in fits.items() if answer == "fits"],
    }


def operators(one: Judged) -> Iterator[dict[str, Any]]:
    """A row for each release, operator and verdict that was read."""
    for release, run in one.runs.items():
        for number in run.findings:
            finding = one.findings[number]
            yield {
                **about_row(one),
                "torch": release,
                **{name: finding.get(name, []) for name in _OPERATOR_NAMES[len(_BEGIN) + 1 :]},
            }


def write_json(store: Store, path: str | None, *, native: bool = False) -> None:
    """One document to a file, or to standard output for ``None``: ``about``, ``runs``, ``operators``, a row on a line.

    Raises:
        OutputError: it cannot be written.
        ReportError: the store is damaged.
    """
    deliver(_document(store, native), path)


def _document(store: Store, native: bool) -> Iterator[bytes]:
    yield b'{"about": ' + json.dumps(store.about(), ensure_ascii=False).encode()
    for name in (RUNS, OPERATORS):
        yield f',\n"{name}": ['.encode()
        first = True
        for one in judged(store, native=native and name == OPERATORS):
            for row in runs(one) if name == RUNS else operators(one):
                yield (b"\n" if first else b",\n") + json.dumps(row, ensure_ascii=False).encode()
                first = False
        yield b"\n]"
    yield b"}\n"


def write_parquet(store: Store, folder: Path, *, native: bool = False) -> list[Path]:
    """``runs.parquet`` and ``operators.parquet`` in ``folder``, which is made.

    Raises:
        MissingPackage: pyarrow is not installed.
        OutputError: they cannot be written.
        ReportError: the store is damaged.
    """
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise MissingPackage("Parquet", "pyarrow") from error
    paths = [folder / f"{name}.parquet" for name in (RUNS, OPERATORS)]
    schemas = [
        pyarrow.schema([(name, _type(pyarrow, name)) for name in names]) for names in (_RUN_NAMES, _OPERATOR_NAMES)
    ]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with (
            parquet.ParquetWriter(paths[0], schemas[0], compression="zstd") as run_rows,
            parquet.ParquetWriter(paths[1], schemas[1], compression="zstd") as operator_rows,
        ):
            kept: tuple[list[Mapping[str, Any]], ...] = ([], [])
            for one in judged(store, native=native):
                kept[0].extend(runs(one))
                kept[1].extend(operators(one))
                for writer, rows, schema in zip((run_rows, operator_rows), kept, schemas, strict=True):
                    if len(rows) >= _GROUP:
                        writer.write_table(pyarrow.Table.from_pylist(rows, schema))
                        rows.clear()
            for writer, rows, schema in zip((run_rows, operator_rows), kept, schemas, strict=True):
                writer.write_table(pyarrow.Table.from_pylist(rows, schema))
    except OSError as error:
        raise OutputError(f"cannot write {folder}: {error.strerror or error}") from error
    return paths


_GROUP = 50_000  # rows that are in memory at once
_BEGIN = ("workload", "architecture", "size", "phase", "dtype")
_RUN_NAMES = (
    *_BEGIN, "parameters", "torch", "state", "error", "operators", "calls", "not_native", "advisories", "peak_bytes",
    "fits_bytes",
)  # fmt: skip
_OPERATOR_NAMES = (
    *_BEGIN, "torch", "operator", "verdict", "calls", "native_since", "reason", "source", "dtypes", "shapes",
    "examples", "call_sites",
)  # fmt: skip
_WHOLE = ("parameters", "operators", "calls", "not_native", "peak_bytes")
_LISTS = ("advisories", "dtypes", "shapes", "examples", "call_sites")


def _type(pyarrow: Any, name: str) -> Any:
    if name in _WHOLE:
        return pyarrow.int64()
    if name == "fits_bytes":
        return pyarrow.list_(pyarrow.int64())
    if name in _LISTS:
        return pyarrow.list_(pyarrow.string())
    # Few different words in many rows.
    long = name in ("error", "reason")
    return pyarrow.string() if long else pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
