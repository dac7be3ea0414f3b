"""What a release registers for an operator, in the dispatcher's order; this judge never passes."""

from __future__ import annotations

from typing import Any

from mpsprobe_coverage.knowledge.calls.keys import serving_key
from mpsprobe_coverage.knowledge.judging.fallback import without_kernel
from mpsprobe_coverage.knowledge.judging.judgement import Judgement
from mpsprobe_coverage.knowledge.judging.renames import COPIED_BY_TYPE, COPY
from mpsprobe_coverage.knowledge.kernels.backends import OVERRIDEABLE
from mpsprobe_coverage.knowledge.kernels.table import COMPOSITE, FALLBACK, NATIVE, UNKNOWN, UNSUPPORTED, KernelTable

NO_TABLE = Judgement("unknown", "an operator of a library that no kernel table covers")
ALWAYS_CPU = "PyTorch registers it to run on the CPU, whatever the environment says"
NOT_WHOLE = "not in the kernel table, which does not hold every kernel of {label}"
OVERRIDE = "its composite kernel only raises: it is there for backends to override"
NOT_IN_RELEASE = "does not exist in torch {release}: the installed torch calls it where that release calls others"


def registered(func: Any, name: str, table: KernelTable, key: str | None = None) -> Judgement:
    """The judgement by the registrations of one release alone, which calls the installed torch's ``func`` by ``name``.

    ``key``: the dispatch key that the call takes; by default the one that serves its dense arguments.
    """
    backend = table.backend
    key = serving_key(name, backend.key) if key is None else key
    verdict = table.verdict(name, key)
    if verdict == COMPOSITE:
        return _copy(table) if _is_copied_by_type(name, table, key) else Judgement("composite")
    if verdict == UNKNOWN:
        return Judgement("unknown", _unknown(name, table))
    since = table.family.native_since(name, key)
    if verdict == NATIVE:
        return Judgement("native", None, "registration", _kernel(name, table, key), since)
    if verdict == FALLBACK and name in table.fallback:
        evidence = "registered with PyTorch's own CPU fallback"
        return Judgement("fallback", ALWAYS_CPU, "registration", evidence, since)
    if verdict == UNSUPPORTED:
        reason = OVERRIDE if name in OVERRIDEABLE else f"registered to raise on {backend.label}"
        return Judgement("unsupported", reason, "registration", "registered with a kernel that only raises", since)
    verdict, reason = without_kernel(func, name, table, key)
    where = f"the table of {backend.label}" if table.source else "the library"
    return Judgement(verdict, reason, "registration", f"no kernel under {key} and no composite one in {where}", since)


def may_have_kernel(name: str, table: KernelTable) -> bool:
    """Whether an operator is unknown only because the table is not whole: then it is not followed any further."""
    return not table.whole and name in table.labels


def is_native(name: str, table: KernelTable) -> bool:
    """Whether dense calls of the operator that the release calls ``name`` reach a kernel."""
    key = serving_key(name, table.backend.key)
    return table.verdict(name, key) == NATIVE or _is_copied_by_type(name, table, key)


def _is_copied_by_type(name: str, table: KernelTable, key: str) -> bool:
    by_type = name == COPY and key == table.backend.key and table.backend.device in COPIED_BY_TYPE
    return by_type and table.verdict(name, key) == COMPOSITE


def _copy(table: KernelTable) -> Judgement:
    """``copy_`` is composite, and calls the backend's own function by the type of the device."""
    evidence = f"the call goes to {table.backend.label} by the type of its device, without a registration"
    return Judgement("native", None, "branch", evidence, table.family.releases[0])


def _unknown(name: str, table: KernelTable) -> str:
    if may_have_kernel(name, table):
        return NOT_WHOLE.format(label=table.backend.label)
    if table.source and not name.startswith("aten::"):  # a plugin's table may have some operators of another library
        return NO_TABLE.reason or ""
    return NOT_IN_RELEASE.format(release=table.release)


def _kernel(name: str, table: KernelTable, key: str) -> str:
    """How the table knows of the kernel of ``name`` under ``key``."""
    if f"{key}:python" in table.labels.get(name, ()):
        return f"registered for {key} from torch's Python code"
    if table.source:
        return f"the table of {table.backend.label} has it under {key}"
    live = "" if table.wheel else ", in the dispatcher of the installed torch"
    return f"a kernel is registered under {key}{live}"
