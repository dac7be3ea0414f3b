"""Where in the model and in which source lines an operator was called."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mpsprobe_exporters.module_names import fold_names
from mpsprobe_exporters.plain_text import call_site, one_line, shortened

if TYPE_CHECKING:
    from mpsprobe.schemas import AdvisoryMatch, OperatorFinding

    Placed = OperatorFinding | AdvisoryMatch

MOST_MODULES, MOST_SITES = 4, 3


def places(one: OperatorFinding) -> list[str]:
    """Folded modules, then source lines, the first of each: ``encoder.layer.{0..11}.attention``, ``bert.py:164``."""
    return modules(one) + sites(one)


def where(one: Placed) -> str:
    """Modules and source lines in one line; empty where neither is known."""
    return " · ".join(", ".join(part) for part in (modules(one), sites(one)) if part)


def modules(one: Placed, most: int | None = MOST_MODULES) -> list[str]:
    """The modules, folded, the first ``most`` of them."""
    return shortened([one_line(name) for name in fold_names(one.modules)], most)


def sites(one: Placed, most: int | None = MOST_SITES) -> list[str]:
    """The source lines by file name and number, the first ``most`` of them."""
    return shortened(list(dict.fromkeys(map(call_site, one.call_sites))), most)
