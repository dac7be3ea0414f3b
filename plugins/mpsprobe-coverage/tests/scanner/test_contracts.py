"""The scanner keeps the contract that strangers' scanners are held to."""

from __future__ import annotations

from mpsprobe_coverage.plugin import mpsprobe_scanners
from mpsprobe_devkit.testing import scanner_contract

[DECLARED] = mpsprobe_scanners()

TestCoverageScanner = scanner_contract(DECLARED)
