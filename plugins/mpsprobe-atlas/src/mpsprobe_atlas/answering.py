"""Answers ``mpsprobe coverage`` from the atlas, before torch is needed: ``mpsprobe_known_answer``.

An answer is given by itself where a run here would say the same: mpsprobe, its plugins, torch and transformers are of
the versions that the sweep had, rules and tables are the same, and nothing of it is edited in place. Any other one is
given where the user asks for it, or where torch or the plugin of the workload is not there.
"""

# ruff: noqa: PTH110, PTH118, PTH120
from __future__ import annotations

import json
import os
import platform
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from mpsprobe.declarations import KnownAnswer, SweptWorkload
from mpsprobe.environment import installed
from mpsprobe.errors import MpsprobeError
from mpsprobe.suggestions import printable, without_home
from mpsprobe_atlas.answers import unpack
from mpsprobe_atlas.store import Row, Store
from mpsprobe_coverage import rules

if TYPE_CHECKING:
    from mpsprobe_coverage.knowledge.chips.limits import Mac

VARIABLE = "MPSPROBE_ATLAS"
SAME, INSTALLED = "same", "installed"
COMPARED = ("torch", "transformers")
HELD = ("phase", "dtype", "size", "chip", "memory")
"""Options that the rows of an atlas are about, or that an answer is worked out for from a row."""
NO_DATA = f"this mpsprobe-atlas has no data, and {VARIABLE} names no store that 'mpsprobe atlas sweep' wrote"
NOT_SAID = "It raises for want of memory; at which call, a run with torch says"
TIME_NOT_SAID = "How long a step takes on that chip, a run with torch says: the atlas does not keep the sizes of calls"
OF_SHOWING = ("explain", "torch_release")


def data_file() -> str:
    """The atlas: ``MPSPROBE_ATLAS`` names another one than this package's."""
    return os.environ.get(VARIABLE) or os.path.join(os.path.dirname(__file__), "data", "atlas")


def known_answer(question: Mapping[str, Any], wanted: str) -> KnownAnswer | None:
    """What the atlas says to ``question``, or why it says nothing; ``None`` where it has no say at all."""
    path = data_file()
    if question["command"] != "coverage":
        return None
    if not os.path.exists(path):
        named = os.environ.get(VARIABLE)
        return KnownAnswer(reason=f"{VARIABLE} names no file: {printable(named)}" if named else NO_DATA)
    if refused := _not_held(question["options"]):
        return KnownAnswer(reason=f"the atlas holds no answer with {refused}")
    from mpsprobe.protocols import RunOptions

    options = {**asdict(RunOptions()), "torch_release": INSTALLED, "explain": False, **question["options"]}
    try:
        with Store(path) as store:
            about = store.about()
            differences = _differences(about["versions"])
            if wanted == SAME and (differences or _is_edited()):
                return None
            row = store.row(without_home(question["workload"]), options["size"], options["phase"], options["dtype"])
        if row is None:
            how = f"--size {options['size']} --phase {options['phase']} --dtype {options['dtype']}"
            return KnownAnswer(reason=f"the atlas holds no answer about {question['workload']} with {how}")
        if row.answer is None:
            return KnownAnswer(reason=f"the sweep of the atlas failed on it: {row.error}")
        return _answer(row, options, differences, wanted)
    except MpsprobeError as error:
        return KnownAnswer(reason=f"the atlas cannot answer: {error.message}")


def swept_workloads() -> list[SweptWorkload]:
    """The workloads of the atlas; none where no atlas is."""
    path = data_file()
    if not os.path.exists(path):
        return []
    workloads: dict[str, dict[str, None]] = {}
    with Store(path) as store:
        for workload, _, phase, _, state in store.states():
            phases = workloads.setdefault(workload, {})
            if state == "answered":
                phases[phase] = None
    return [SweptWorkload(name, tuple(phases)) for name, phases in workloads.items()]


def _answer(row: Row, options: Mapping[str, Any], differences: Sequence[str], wanted: str) -> KnownAnswer | None:
    assert row.answer is not None
    answers = unpack(row.answer)
    named = _named(options["torch_release"], answers.releases)
    if named == [INSTALLED]:
        torch = installed(["torch"])
        if not torch:
            newest = answers.releases[-1] if answers.releases else "2.13.0"
            return KnownAnswer(reason=f"no torch is installed to be judged: name one with --torch {newest}")
        if wanted == SAME and platform.system() == "Darwin":  # what that torch has registered is asked of itself
            return KnownAnswer(reason="the torch that is installed answers for itself: name a release")
        named = [_public(torch["torch"][0])]
    if wanted == SAME and not _by_these_rules(row, answers.operators(), named):
        return None
    missing = [release for release in named if release not in answers.releases]
    if missing:
        return KnownAnswer(reason=f"the atlas does not hold torch {', '.join(missing[:3])}")
    is_timed = bool(options["chip"]) and len(named) == 1
    if wanted == SAME and is_timed:
        return None
    documents = [answers.report(release) for release in named]
    if options["chip"] or options["memory"]:
        for release, document in zip(named, documents, strict=True):
            if not _is_for_that_mac(document, answers.fits.get(release, {}), options):
                return KnownAnswer(reason="the atlas does not know whether it fits on that Mac")
    document = documents[0]
    if len(documents) > 1:
        from mpsprobe.assembling import matrix_fields
        from mpsprobe.views import as_it_is

        document = matrix_fields(as_it_is(documents))
    if options["explain"]:
        document["explained"] = True
    notes = (TIME_NOT_SAID,) * is_timed
    notes += (f"Other versions than here may answer otherwise: {', '.join(differences)}",) * bool(differences)
    return KnownAnswer(document, row.made.replace("+00:00", "Z"), notes)  # as reports write a time


def _named(text: str, held: Collection[str]) -> list[str]:
    """The releases that ``--torch`` names; what is written like a release of the atlas is one."""
    if text in held or text == INSTALLED:
        return [text]
    from mpsprobe.protocols import RunOptions
    from mpsprobe_coverage.commands.options import releases
    from mpsprobe_coverage.knowledge.kernels.backends import family_named

    return releases(text, family_named(RunOptions().backend))


def _by_these_rules(row: Row, operators: Collection[str], releases: Sequence[str]) -> bool:
    """Whether the row was made by the rules and tables of now, as far as they touch it."""
    made, now = json.loads(row.rules or "{}"), rules.stated()
    return (
        made.get("code") in now.code
        and row.entries == now.entries(operators)
        and all(made["releases"].get(release) == now.releases.get(release) for release in releases)
    )


def _is_for_that_mac(report: dict[str, Any], fits: Mapping[int, str], options: Mapping[str, Any]) -> bool:
    """Whether ``report`` could be made one for the chip and the memory of ``options``: its fit may not be known."""
    from mpsprobe.protocols import RunOptions
    from mpsprobe_coverage.knowledge.advisories.store import named, number_for
    from mpsprobe_coverage.knowledge.chips.limits import macs_asked

    macs = macs_asked(replace(RunOptions(), chip=options["chip"], memory=options["memory"]))
    if options["chip"]:
        release, oldest = report["target"]["torch"], report["target"].get("macos_minimum")
        known = named(match["id"] for match in report["advisories"])
        affecting = {advisory.id for advisory in known if advisory.affects(release, oldest, None, options["chip"])}
        report["advisories"] = [match for match in report["advisories"] if match["id"] in affecting]
        report["summary"]["advisories"] = sum(not match.get("undecided") for match in report["advisories"])
        report["summary"]["advisories_compared"] = number_for(release, oldest, None, options["chip"])
    if macs and report["memory"] is not None:
        if any(mac.memory not in fits for mac in macs):
            return False
        answers = [_fit(mac, fits[mac.memory], report["memory"]) for mac in macs]
        report["memory"] |= {"fit": answers[0]} if len(answers) == 1 else {"fits": answers}
    return True


def _fit(mac: Mac, answer: str, memory: Mapping[str, Any]) -> dict[str, Any]:
    """As far as the answer alone says it: where it raises, the sweep has not kept at which call."""
    from mpsprobe_coverage.knowledge.chips.limits import limits_of
    from mpsprobe_coverage.knowledge.memory.allocator import Limits

    known = limits_of(mac.memory)
    ends = {}
    for end, unclear in (("low", "raises"), ("high", "fits")):
        limits = Limits(getattr(known.recommended, end), getattr(known.largest_buffer, end))
        of_end = unclear if answer == "unclear" else answer
        ends[end] = {
            "answer": of_end,
            "recommended_bytes": limits.recommended,
            "largest_buffer_bytes": limits.buffer,
            "collects_bytes": limits.short,
            "allowed_bytes": limits.allowed,
            "margin_bytes": limits.allowed - memory["allocated_bytes"],
            "reserved_bytes": memory["reserved_bytes"],
            "message": NOT_SAID if of_end == "raises" else None,
        }
    return {
        "machine": mac.name,
        "memory_bytes": mac.memory,
        "answer": answer,
        **ends,
        "basis": "neighbours" if known.recommended.basis == "neighbours" else "published",
        "sources": sorted({figure.source for figure in (*known.recommended.figures, *known.largest_buffer.figures)}),
    }


def _not_held(options: Mapping[str, Any]) -> str:
    """The first option, as a flag, that is not as every row of an atlas has it; empty where all are."""
    for name in options:
        if name not in (*HELD, *OF_SHOWING):
            return "--" + name.replace("_", "-")
    if any(name.startswith("PYTORCH_MPS_") for name in os.environ) and {"chip", "memory"}.intersection(options):
        return "variables that begin with PYTORCH_MPS_"
    return ""


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


def _public(version: str) -> str:
    return version.partition("+")[0]
