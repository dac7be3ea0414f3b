"""Declarations as a plugin's hooks return them, names, and options of a run."""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import Any, get_type_hints

from hypothesis import strategies as st

from mpsprobe.declarations import DTYPES, PHASES, Declaration, ExporterDeclaration, WorkloadDeclaration
from mpsprobe.plugins.catalogue import KINDS as DECLARED
from mpsprobe.protocols import RunOptions
from mpsprobe.schemas.report import KINDS
from mpsprobe_devkit.testing.strategies.texts import texts

LARGEST_SIZE = 4096


def plugin_names() -> st.SearchStrategy[str]:
    """Names that a plugin may declare: lower-case letters, digits, ``-``, ``.`` and ``_``."""
    return st.from_regex(r"[a-z0-9][a-z0-9._-]{0,15}", fullmatch=True)


def _targets() -> st.SearchStrategy[str]:
    part = r"[a-z_][a-z0-9_]{0,8}"
    return st.from_regex(rf"{part}(\.{part}){{0,2}}:{part}", fullmatch=True)


def _phases() -> st.SearchStrategy[tuple[str, ...]]:
    return st.sampled_from([*((phase,) for phase in PHASES), PHASES])


def workload_declarations() -> st.SearchStrategy[WorkloadDeclaration]:
    """Any valid declaration of a workload; its target need not resolve."""
    return _declarations(WorkloadDeclaration)


def exporter_declarations() -> st.SearchStrategy[ExporterDeclaration]:
    """Any valid declaration of an exporter: with an extension, or for a folder; its target need not resolve."""

    def told_apart(one: ExporterDeclaration) -> bool:
        return bool(one.extension) != one.folder and not (one.binary and one.folder)

    return _declarations(ExporterDeclaration).filter(told_apart)


def declarations() -> st.SearchStrategy[Declaration]:
    """Any valid declaration, of any kind; its target need not resolve."""
    kinds = [kind for _, kind in DECLARED.values() if kind is not ExporterDeclaration]
    return st.one_of([exporter_declarations(), *map(_declarations, kinds)])


def run_options(phases: tuple[str, ...] = PHASES) -> st.SearchStrategy[RunOptions]:
    """Options of a run as the command line gives them, without real weights or another's code.

    Args:
        phases: those that may be asked for.
    """
    sizes = st.none() | st.integers(1, LARGEST_SIZE)
    return st.builds(
        RunOptions,
        phase=st.sampled_from(phases),
        dtype=st.sampled_from(DTYPES),
        batch_size=sizes,
        seq_len=sizes,
        autocast=st.none() | st.sampled_from(["float16", "bfloat16"]),
        grad_accum=st.integers(1, 8),
        clip_norm=st.floats(0, 10),
    )


def _declarations(kind: Any) -> st.SearchStrategy[Any]:
    """Any declaration of a class: by its fields, so that one that is new has its strategy."""
    by_name = {
        "name": plugin_names(),
        "target": _targets(),
        "extension": st.from_regex(r"(\.[a-z0-9]{1,6}){0,2}", fullmatch=True),
        "phases": _phases(),
        "kinds": st.lists(st.sampled_from(list(KINDS)), min_size=1, unique=True).map(tuple),
    }
    by_type = {
        str: texts(),
        bool: st.booleans(),
        tuple[str, ...]: st.lists(plugin_names(), min_size=1, max_size=3).map(tuple),
    }
    types = get_type_hints(kind)
    needed = {one.name: by_name.get(one.name, by_type[types[one.name]]) for one in fields(kind)}
    further = {one.name: needed.pop(one.name) for one in fields(kind) if one.default is not MISSING}
    return st.fixed_dictionaries(needed, optional=further).map(lambda values: kind(**values))
