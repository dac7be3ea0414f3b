"""Contracts: what a plugin's classes have to keep to, as clauses that a stranger runs on its own with one line.

In a test file, with pytest (``TestBadge`` is then a class with one test for each clause)::

    TestBadge = exporter_contract(BADGE)

without pytest, as ``mpsprobe plugins check`` does::

    for broken in broken_clauses(BADGE):
        print(broken.clause, broken.problem)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mpsprobe.declarations import ExporterDeclaration
from mpsprobe.schemas import Report
from mpsprobe.testing.contracts.clauses import Broken, BrokenClause, Clause, Contract
from mpsprobe.testing.contracts.exporter import EXPORTER, ExporterSubject
from mpsprobe.testing.contracts.subjects import by_target, given, name_of, place_of

__all__ = ["Broken", "BrokenClause", "Clause", "Contract", "broken_clauses", "exporter_contract"]


def exporter_contract(
    exporter: object,
    *,
    extension: str | None = None,
    binary: bool | None = None,
    kinds: Iterable[str] | None = None,
    folder: bool | None = None,
    reports: Iterable[Report] = (),
    without: Mapping[str, str] | None = None,
) -> type:
    """A class of tests, one for each clause of the contract for exporters.

    Args:
        exporter: its ``ExporterDeclaration``; or the class (made without arguments) or an object, whose declaration is
            then the next four arguments. Only what has a declaration is tried in a process of its own as well.
        extension, binary, kinds, folder: as ``ExporterDeclaration`` has them.
        reports: reports beside the samples of mpsprobe: those of kinds of your own.
        without: clauses to leave out, each with the reason why.

    Raises:
        TypeError: a declaration, and beside it what it declares.
        ValueError: ``without`` names a clause that there is not.
    """
    if isinstance(exporter, ExporterDeclaration):
        if (extension, binary, kinds, folder) != (None, None, None, None):
            raise TypeError("the declaration says the extension, binary, kinds and folder; give them there")
        declaration, made = exporter, by_target(exporter.target)
    else:
        writes_folder = folder if folder is not None else hasattr(exporter, "files") and not hasattr(exporter, "render")
        declaration = ExporterDeclaration(
            name_of(exporter),
            place_of(exporter),
            "under test",
            extension if extension is not None else "" if writes_folder else ".txt",
            binary=bool(binary),
            kinds=tuple(kinds) if kinds is not None else ("coverage", "coverage-matrix"),
            folder=writes_folder,
        )
        made = given(exporter)
    return EXPORTER.suite(ExporterSubject(declaration, made, tuple(reports)), declaration.name, without)


def broken_clauses(
    declaration: object, *, reports: Iterable[Report] = (), without: Mapping[str, str] | None = None
) -> list[BrokenClause]:
    """Every clause of its contract that what ``declaration`` names does not keep; none for a sound one.

    Args:
        declaration: of an exporter.
        reports: for an exporter: reports of kinds of its own.
        without: clauses to leave out, each with the reason why.

    Raises:
        TypeError: there is no contract for such a declaration.
    """
    if isinstance(declaration, ExporterDeclaration):
        return EXPORTER.broken(ExporterSubject(declaration, by_target(declaration.target), tuple(reports)), without)
    raise TypeError(f"there is no contract for a {type(declaration).__name__}")
