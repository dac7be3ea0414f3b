"""A macOS wheel of torch → what its tests expect of MPS, of operators and of modules.

The lists, OpInfo entries and modules are Python that builds them, so that Python is executed: the wheel's own files of
``torch/testing``, in a process of its own (``torch_tests.py``), which may use no network and start nothing. Only a
maintainer does that, with a wheel of PyTorch itself; whoever uses the tables reads what was stored.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from mpsprobe.errors import TableError
from mpsprobe.output import TemporaryFolder
from mpsprobe.suggestions import printable
from mpsprobe_tables.builder.wheel import Wheel
from mpsprobe_tables.expectations import ALL, DECORATORS, Expectations, joined
from mpsprobe_tables.module_marks import FORWARD_TEST, GRADIENT_TEST, TEST_CLASS, UNMARKED, ModuleMarks

TESTS = "torch/testing/"
LISTS = f"{TESTS}_internal/common_mps.py"
MODULES = f"{TESTS}_internal/common_modules.py"
FOR_MPS = ("expectedFailureMPS", "skipMPS")
"""Decorators that say that modules are tested on MPS: torch 2.1.0 and later."""
IDLE_CLASS = f"{TEST_CLASS}MPS"
CONSISTENCY = "TestConsistency"
NEVER_ON_MPS = frozenset({"float64", "complex128"})
HALF_OR_SINGLE = ("float16", "float32")
KEPT = ("PATH", "SYSTEMROOT")  # of the variables
LIMIT_S = 300  # it takes 8 s


class CannotBeImported(TableError):
    """The test modules of a release cannot be executed here: what is stored of it stays as it is."""

    def __init__(self, wheel: Wheel, why: str) -> None:
        super().__init__(
            f"the test modules of torch {wheel.release} cannot be imported with torch {version('torch')}: "
            + printable(why)[:200],
            "What is stored of that release stays as it is. With a torch nearer to it they may be: install one.",
        )


def has_expectations(wheel: Wheel) -> bool:
    """Whether the wheel carries the lists: torch 2.8.0 and later."""
    return wheel.library == "torch" and wheel.has(LISTS)


def has_module_marks(wheel: Wheel) -> bool:
    """Whether the tests of the wheel's modules run on Macs: torch 2.1.0 and later."""
    return wheel.library == "torch" and wheel.has(MODULES) and any(name in wheel.text(MODULES) for name in FOR_MPS)


def read_expectations(wheel: Wheel) -> Expectations:
    """What the wheel's tests expect of operators.

    Raises CannotBeImported: its test modules do not run with the torch that is installed.
    """
    said = _said(wheel)
    modifiers, entries = said["modifiers"], {entry["name"] + entry["variant"]: entry for entry in said["entries"]}
    made = [
        name for name, entry in entries.items() if entry["helper"] and _says_nothing(entry)
    ]  # known by half their name
    written = {name: entry for name, entry in entries.items() if name not in made}
    sections = {
        f"{test} {name}": {key: joined(dtypes) for key, dtypes in listed.items()}
        for test, one in modifiers.items()
        for name, _, listed in one["lists"]
    }
    for name in ("supported_complex", "unsupported_complex"):
        if (listed := modifiers["forward"][name]) is not None:
            sections[name] = dict.fromkeys(listed, ALL)
    sections["entries"] = dict.fromkeys(written, ALL)
    sections["elsewhere"] = dict.fromkeys((entries[name]["variant"] or entries[name]["name"] for name in made), ALL)
    for name in ("claimed", "claimed_backward"):
        given = {key: one[name] for key, one in written.items() if one[name] is not None}
        sections[name] = {key: joined(dtype for dtype in given[key] if dtype not in NEVER_ON_MPS) for key in given}
    sections[DECORATORS] = {}
    for key, modifier in written.items():
        decorators = (
            f"{kind} {test or ALL} {joined(dtypes).replace(' ', ',')}"
            for kind, in_class, test, dtypes, _ in modifier["marks"]
            if in_class in (None, CONSISTENCY)
        )
        if text := "; ".join(decorators):
            sections[DECORATORS][key] = text
    kinds = {f"{test} {name}": kind for test, one in modifiers.items() for name, kind, _ in one["lists"]}
    return Expectations(wheel.release, wheel.path.name, wheel.sha256, kinds, sections)


def read_module_marks(wheel: Wheel) -> ModuleMarks:
    """What the wheel's tests expect of modules.

    Raises CannotBeImported: its test modules do not run with the torch that is installed.
    """
    found = _said(wheel)["modules"]
    marked = {name: [mark for raw in marks for mark in _mark(*raw)] for name, marks in found["entries"].items()}
    modules = {name: "; ".join(marks) or UNMARKED for name, marks in marked.items()}
    dtypes = tuple(dtype for dtype in found["dtypes"] if dtype in HALF_OR_SINGLE)
    return ModuleMarks(wheel.release, wheel.path.name, wheel.sha256, dtypes, modules)


def _mark(
    kind: str, in_class: str | None, test: str | None, dtypes: list[str] | None, mode: str | None
) -> Iterator[str]:
    """One that may act on the tests of modules on MPS, as the files have it."""
    named = None if dtypes is None else [dtype for dtype in dtypes if dtype in HALF_OR_SINGLE]
    if in_class in (None, TEST_CLASS, IDLE_CLASS) and test in (None, FORWARD_TEST, GRADIENT_TEST) and named != []:
        yield f"{kind} {in_class or TEST_CLASS} {test or ALL} {joined(named).replace(' ', ',')} {mode or ALL}"


def _says_nothing(entry: Mapping[str, Any]) -> bool:
    return entry["claimed"] is None and all(in_class not in (None, CONSISTENCY) for _, in_class, *_ in entry["marks"])


@functools.lru_cache(maxsize=1)
def _said(wheel: Wheel) -> Any:
    """What the wheel's test modules say, as ``torch_tests.py`` tells it; it is asked once for each wheel."""
    with TemporaryFolder() as name:
        folder = Path(name)
        wheel.unpack(TESTS, ".py", folder)
        program = str(Path(__file__).with_name("torch_tests.py"))
        kept = {variable: os.environ[variable] for variable in KEPT if variable in os.environ}
        # -I: neither variables nor the current folder say what is imported.
        command = [sys.executable, "-I", "-B", "-W", "ignore", program, name]
        try:
            ended = subprocess.run(
                command,
                cwd=folder,
                env={**kept, "TMPDIR": name, "TEMP": name, "TORCHINDUCTOR_CACHE_DIR": name},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=LIMIT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise CannotBeImported(wheel, f"they do not end within {LIMIT_S} s") from None
        if ended.returncode:
            raise CannotBeImported(wheel, ended.stderr.strip().rpartition("\n")[2])
        return json.loads(ended.stdout)
