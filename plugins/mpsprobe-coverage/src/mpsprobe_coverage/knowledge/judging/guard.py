"""What kernels say when they raise: the guard messages in each release's library.

A table of guards for each area (``guards_*.py``): the message, the operators, what is checked. Each check was read in
the machine code of the function that refers to the message, in macOS libraries from 1.12.1 to 2.15.0, and compared with
PyTorch's source of a near commit, whose file and function a comment names. A message whose check could not be
established has no guard; ``docs/explanation/verdicts.md`` lists those.

Only messages that no kernel for another backend raises with are there: the library holds the CPU's too.
"""

from __future__ import annotations

from mpsprobe_coverage.knowledge.judging import (
    guards_indexing,
    guards_linear_algebra,
    guards_networks,
    guards_pointwise,
)
from mpsprobe_coverage.knowledge.judging.guards import Guard, messages
from mpsprobe_coverage.knowledge.judging.judgement import Rule
from mpsprobe_coverage.knowledge.kernels.table import KernelTable

GUARDS: tuple[Guard, ...] = (
    *guards_indexing.GUARDS,
    *guards_linear_algebra.GUARDS,
    *guards_networks.GUARDS,
    *guards_pointwise.GUARDS,
)


def rules_of(operator: str, table: KernelTable) -> tuple[Rule, ...]:
    """A rule for each guard of the kernel of ``operator`` in the release of ``table``."""
    return messages(GUARDS, operator, table, "guard")
