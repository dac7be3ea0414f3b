"""A store as rows for analysts: what each release does with each workload, and the operators that it does not run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from mpsprobe.errors import MissingPackage, OutputError
from mpsprobe_atlas.reading import Judged, Run, judged
from mpsprobe_atlas.store import Store

RUNS, OPERATORS = "runs", "operators"
GROUP = 50_000  # rows that are in memory at once
ABOUT = ("workload", "architecture", "size", "phase", "dtype")
OF_RUNS = (
    *ABOUT, "parameters", "torch", "state", "error", "operators", "calls", "not_native", "advisories", "peak_bytes",
    "fits_bytes",
)  # fmt: skip
OF_FINDINGS = (
    "operator", "verdict", "calls", "native_since", "reason", "source", "dtypes", "shapes", "examples", "call_sites"
)  # fmt: skip
WHOLE = ("parameters", "operators", "calls", "not_native", "peak_bytes")
LISTS = ("advisories", "dtypes", "shapes", "examples", "call_sites")


def runs(one: Judged) -> Iterator[dict[str, Any]]:
    """A row for each release; one without a release where there is no answer."""
    by_release: list[tuple[str | None, Run]] = [*one.runs.items()]
    for release, run in by_release or [(None, Run({}, failure=one.row.error))]:
        fits = one.fits.get(release or "", {})
        yield {
            **_about(one),
            "parameters": one.row.parameters,
            "torch": release,
            "state": run.state if release else "failed",
            "error": run.failure,
            "operators": run.operators,
            "calls": run.calls,
            "not_native": len(run.verdicts),
            "advisories": list(run.advisories),
            "peak_bytes": run.peak_bytes,
            "fits_bytes": [memory for memory, answer in fits.items() if answer == "fits"],
        }


def operators(one: Judged) -> Iterator[dict[str, Any]]:
    for release, run in one.runs.items():
        for number in run.findings:
            finding = one.findings[number]
            yield {**_about(one), "torch": release, **{name: finding.get(name, []) for name in OF_FINDINGS}}


def _about(one: Judged) -> dict[str, Any]:
    return {name: getattr(one.row, name) for name in ABOUT}


KINDS = {RUNS: (runs, OF_RUNS), OPERATORS: (operators, (*ABOUT, "torch", *OF_FINDINGS))}


def json_document(store: Store, *, native: bool) -> Iterator[bytes]:
    """``about``, ``runs``, ``operators``; a row on a line."""
    yield b'{"about": ' + json.dumps(store.about(), ensure_ascii=False).encode()
    for name, (rows_of, _) in KINDS.items():
        yield f',\n"{name}": ['.encode()
        comma = b"\n"
        for entry in judged(store, native=native and name == OPERATORS):
            for row in rows_of(entry):
                yield comma + json.dumps(row, ensure_ascii=False).encode()
                comma = b",\n"
        yield b"\n]"
    yield b"}\n"


def write_parquet(store: Store, folder: Path, *, native: bool = False) -> list[Path]:
    """``runs.parquet`` and ``operators.parquet`` in ``folder``, which is made."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise MissingPackage("Parquet", "pyarrow") from error
    paths = [folder / f"{name}.parquet" for name in KINDS]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with ExitStack() as files:
            tables: list[tuple[Any, Any, Any, list[dict[str, Any]]]] = []
            for path, (rows_of, names) in zip(paths, KINDS.values(), strict=True):
                schema = pyarrow.schema([(name, _type(pyarrow, name)) for name in names])
                writer = files.enter_context(parquet.ParquetWriter(path, schema, compression="zstd"))
                tables.append((rows_of, schema, writer, []))
            for row in judged(store, native=native):
                for rows_of, schema, writer, rows in tables:
                    rows += rows_of(row)
                    if len(rows) >= GROUP:
                        writer.write_table(pyarrow.Table.from_pylist(rows, schema))
                        rows.clear()
            for _, schema, writer, rows in tables:
                writer.write_table(pyarrow.Table.from_pylist(rows, schema))
    except OSError as error:
        raise OutputError(f"cannot write {folder}: {error.strerror or error}") from error
    return paths


def _type(pyarrow: Any, name: str) -> Any:
    whole, text = pyarrow.int64(), pyarrow.string()
    types = dict.fromkeys(WHOLE, whole) | dict.fromkeys(LISTS, pyarrow.list_(text))
    types |= {"fits_bytes": pyarrow.list_(whole), "error": text, "reason": text}
    return types.get(name) or pyarrow.dictionary(pyarrow.int32(), text)  # few different words in many rows
