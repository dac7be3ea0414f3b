"""Contracts: what a plugin's classes have to keep to, as clauses that a stranger runs on its own with one line.

In a test file, for pytest (``TestBadge`` is then a class with one test for each clause)::

    TestBadge = exporter_contract(BADGE)

without pytest, as ``mpsprobe plugins check`` does::

    for broken in broken_clauses(BADGE):
        print(broken.clause, broken.problem)

``BADGE`` is the declaration that the plugin's hook returns. The class behind it, or an object, will do as well.
"""

from mpsprobe_devkit.testing.contracts.clauses import Broken, BrokenClause, Clause, Contract
from mpsprobe_devkit.testing.contracts.entries import (
    broken_clauses,
    device_contract,
    exporter_contract,
    probe_contract,
    runner_contract,
    scanner_contract,
    workload_contract,
)

__all__ = [
    "Broken",
    "BrokenClause",
    "Clause",
    "Contract",
    "broken_clauses",
    "device_contract",
    "exporter_contract",
    "probe_contract",
    "runner_contract",
    "scanner_contract",
    "workload_contract",
]
