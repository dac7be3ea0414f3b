"""What this plugin offers. Thin: it imports neither torch nor diffusers."""

from __future__ import annotations

from collections.abc import Iterable

from mpsprobe import hookimpl
from mpsprobe.declarations import WorkloadDeclaration

PREFIX = "diffusers:"
TARGET = "mpsprobe_diffusers.workload:load"


@hookimpl
def mpsprobe_workloads() -> Iterable[WorkloadDeclaration]:
    """The pipelines of the catalog."""
    from mpsprobe_diffusers.catalog import entries

    return [
        WorkloadDeclaration(entry.name, TARGET, entry.summary, entry.family, requires=entry.requires)
        for entry in entries().values()
    ]


@hookimpl
def mpsprobe_resolve_workload(name: str) -> WorkloadDeclaration | None:
    """``diffusers:NAME``: the same, their parts, and every other pipeline class of the installed diffusers.

    Without the prefix: a folder with a pipeline, and a repository of the Hub that is in the cache or the catalog.
    """
    from mpsprobe_diffusers.places import place_of

    if not name.startswith(PREFIX) and place_of(name) is None:
        return None
    return WorkloadDeclaration(name, TARGET, "a pipeline of diffusers, or a part of one", "image")


@hookimpl
def mpsprobe_workload_space(space: str) -> Iterable[WorkloadDeclaration] | None:
    """The pipelines of the catalog, and the classes of the installed diffusers."""
    if f"{space}:" != PREFIX:
        return None
    from mpsprobe_diffusers.catalog import entries
    from mpsprobe_diffusers.classes import check_installed, pipeline_names

    check_installed("the names of diffusers' pipelines")
    named = [(entry.name, entry.summary, entry.family) for entry in entries().values()]
    classes = [(name, "a class of the installed diffusers", "image") for name in pipeline_names()]
    return [WorkloadDeclaration(PREFIX + name, TARGET, what, family) for name, what, family in (*named, *classes)]
