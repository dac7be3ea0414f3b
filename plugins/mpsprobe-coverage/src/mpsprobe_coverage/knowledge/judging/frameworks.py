"""Calls that fail inside Apple's frameworks, as users report: no message of the library tells of them."""

from __future__ import annotations

from mpsprobe_coverage.knowledge.judging.conditions import Conditions
from mpsprobe_coverage.knowledge.judging.frameworks_dtypes import DTYPES
from mpsprobe_coverage.knowledge.judging.frameworks_ranks import RANKS
from mpsprobe_coverage.knowledge.judging.frameworks_sizes import SIZES

FRAMEWORKS = Conditions("frameworks", "unsupported", "issue", (*RANKS, *DTYPES, *SIZES))
rules_of = FRAMEWORKS.rules_of
