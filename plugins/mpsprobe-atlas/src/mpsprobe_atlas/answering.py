"""Answers ``mpsprobe coverage`` from the atlas, before torch is needed: ``mpsprobe_known_answer``.

An answer is given by itself where a run here would say the same: mpsprobe, its plugins, torch and transformers are of
the versions that the sweep had, the kernel tables are the same, and nothing of it is edited in place. Any other one is
given where the user asks for it, or where torch or the plugin of the workload is not there.
"""

# ruff: noqa: PTH113, PTH118, PTH120
from __future__ import annotations

import json
import os
import platform
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from mpsprobe.declarations import KnownAnswer, SweptWorkload
from mpsprobe.environment import installed
from mpsprobe.errors import MpsprobeError
from mpsprobe.suggestions import printable
from mpsprobe_atlas.answers import unpack
from mpsprobe_atlas.store import Row, Store

VARIABLE = "MPSPROBE_ATLAS"
SAME, INSTALLED = "same", "installed"
COMPARED = ("torch", "transformers")
HELD = ("phase", "dtype", "size", "chip", "memory")
"""Options that the rows of an atlas are about, or that an answer is worked out for from a row."""
NO_DATA = f"this mpsprobe-atlas has no data, and {VARIABLE} names no store that 'mpsprobe atlas sweep' wrote"
OF_SHOWING = ("explain", "method", "torch_release")


def data_file() -> str:
    """The atlas: ``MPSPROBE_ATLAS`` names another one than this package's."""
    return os.environ.get(VARIABLE) or os.path.join(os.path.dirname(__file__), "data", "atlas.sqlite")


def known_answer(question: Mapping[str, Any], wanted: str) -> KnownAnswer | None:
    """What the atlas says to ``question``, or why it says nothing; ``None`` where it has no say at all."""
    path = data_file()
    if question["command"] != "coverage":
        return None
    if not os.path.isfile(path):
        named = os.environ.get(VARIABLE)
        return KnownAnswer(reason=f"{VARIABLE} names no file: {printable(named)}" if named else NO_DATA)
    if refused := _not_held(question["options"]):
        return KnownAnswer(reason=f"the atlas holds no answer with {refused}")
    from mpsprobe.protocols import RunOptions

    options = {**asdict(RunOptions()), "torch_release": INSTALLED, "explain": False, **question["options"]}
    try:
        with Store(path, unchanging=VARIABLE not in os.environ) as store:
            about = store.about()
            differences = _differences(about["versions"])
            if wanted == SAME and (differences or _is_edited() or about["tables"] != _tables()):
                return None
            row = store.row(question["workload"], options["size"], options["phase"], options["dtype"])
        if row is None or row.answer is None:
            return KnownAnswer(reason=_unknown(question["workload"], options, row))
        return _answer(row, options, differences, wanted)
    except MpsprobeError as error:
        return KnownAnswer(reason=f"the atlas cannot answer: {error.message}")


def swept_workloads() -> list[SweptWorkload]:
    """The workloads of the atlas; none where no atlas is.

    Raises:
        ReportError: the file is none, or damaged.
    """
    path = data_file()
    if not os.path.isfile(path):
        return []
    found: dict[str, dict[str, None]] = {}
    with Store(path, unchanging=VARIABLE not in os.environ) as store:
        for workload, _, phase, _, state in store.states():
            phases = found.setdefault(workload, {})
            if state == "answered":
                phases[phase] = None
    return [SweptWorkload(name, tuple(phases)) for name, phases in found.items()]


def _answer(row: Row, options: Mapping[str, Any], differences: Sequence[str], wanted: str) -> KnownAnswer:
    assert row.answer is not None
    answers = unpack(row.answer)
    named = _named(options["torch_release"], answers.releases)
    if named == [INSTALLED]:
        release = _version("torch")
        if release is None:
            newest = answers.releases[-1] if answers.releases else "2.13.0"
            return KnownAnswer(reason=f"no torch is installed to be judged: name one with --torch {newest}")
        if wanted == SAME and platform.system() == "Darwin":  # what that torch has registered is asked of itself
            return KnownAnswer(reason="the torch that is installed answers for itself: name a release")
        named = [release.partition("+")[0]]
    missing = [one for one in named if one not in answers.releases]
    if missing:
        return KnownAnswer(reason=f"the atlas does not hold torch {', '.join(missing[:3])}")
    found = [answers.report(one) for one in named]
    if options["chip"] or options["memory"]:
        from mpsprobe_atlas.assembling import asked_of

        documents = [asked_of(one, answers.fits.get(at, {}), options) for at, one in zip(named, found, strict=True)]
        found = [one for one in documents if one is not None]
        if len(found) < len(documents):
            return KnownAnswer(reason="the atlas does not know whether it fits on that Mac")
    document = found[0]
    if len(found) > 1:
        from mpsprobe.assembling import matrix_fields
        from mpsprobe.views import as_it_is

        document = matrix_fields(as_it_is(found))
    if options["explain"]:
        document["explained"] = True
    notes = (f"Other versions than here may answer otherwise: {', '.join(differences)}",) if differences else ()
    return KnownAnswer(document, _in_utc(row.made), notes)


def _named(text: str, held: Collection[str]) -> list[str]:
    """The releases that ``--torch`` names; what is written like a release of the atlas is one."""
    if text in held or text == INSTALLED:
        return [text]
    from mpsprobe.protocols import RunOptions
    from mpsprobe_coverage.commands.options import releases
    from mpsprobe_coverage.knowledge.kernels.backends import family_named

    return releases(text, family_named(RunOptions().backend))


def _not_held(options: Mapping[str, Any]) -> str:
    """The first option, as a flag, that is not as every row of an atlas has it; empty where all are."""
    for name in options:
        if name not in (*HELD, *OF_SHOWING):
            return "--" + name.replace("_", "-")
    if any(name.startswith("PYTORCH_MPS_") for name in os.environ) and {"chip", "memory"}.intersection(options):
        return "variables that begin with PYTORCH_MPS_"
    return ""


def _unknown(workload: str, options: Mapping[str, Any], row: Row | None) -> str:
    if row is not None:
        return f"the sweep of the atlas failed on it: {row.error}"
    how = f"--size {options['size']} --phase {options['phase']} --dtype {options['dtype']}"
    return f"the atlas holds no answer about {workload} with {how}"


def _differences(versions: Mapping[str, str]) -> list[str]:
    """Each version that is another one here: ``transformers 5.23.0, 5.20.0 here``."""
    here = installed([name for name in versions if name in COMPARED or name.startswith("mpsprobe")])
    return [
        f"{name} {version}, {here[name][0]} here"
        for name, version in versions.items()
        if name in here and _public(here[name][0]) != _public(version)
    ]


def _is_edited() -> bool:
    """Whether mpsprobe or a plugin of its is installed to be edited in place."""
    for _, direct_url in installed(("mpsprobe", "mpsprobe-coverage", "mpsprobe-hf")).values():
        try:
            if direct_url and json.loads(direct_url).get("dir_info", {}).get("editable"):
                return True
        except (ValueError, AttributeError):
            continue
    return False


def _tables() -> str:
    from mpsprobe_atlas.tables import tables

    return tables()


def _version(name: str) -> str | None:
    found = installed([name])
    return found[name][0] if found else None


def _public(version: str) -> str:
    return version.partition("+")[0]


def _in_utc(made: str) -> str:
    """As reports write a time: to the second, with Z."""
    return made.replace("+00:00", "Z")
