"""The scanner keeps the contract that strangers' scanners are held to."""

from __future__ import annotations

from mpsprobe.testing import scanner_contract
from mpsprobe_coverage.plugin import mpsprobe_scanners

[DECLARED] = mpsprobe_scanners()

TestCoverageScanner = scanner_contract(DECLARED)
