"""What to do about one finding: the scanner's own words where it has some, else words by verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mpsprobe_exporters import backends
from mpsprobe_exporters.answer import WIDE_DTYPES, cure
from mpsprobe_exporters.plain_text import byte_size, call_site, one_line

if TYPE_CHECKING:
    from mpsprobe.schemas import OperatorFinding, Target

SWITCH = "set {} before `import torch`"
NARROWER = {"float64": "float32", "complex128": "complex64"}
LONGEST = 1000


def advice(finding: OperatorFinding, release: str, judged: Target | None = None) -> str:
    """What the user of torch ``release`` can do about ``finding``, in sentences.

    ``judged`` says on which backend; without it, MPS.
    """
    if finding.advice and finding.advice.strip():
        return one_line(finding.advice, LONGEST)
    since = cure(finding, release)
    upgrade = f"Upgrade to torch {one_line(since)} or later, where it is native. " if since else ""
    if finding.verdict == "missing":
        variable = backends.variable(judged)
        if variable is None:
            start = "Until then, " if since else "No release has a kernel yet: "
            return f"{upgrade}{start}move it to the CPU by hand."
        switch = SWITCH.format(variable)
        start = f"Until then, {switch}" if since else f"No release has a kernel yet: {switch}"
        return f"{upgrade}{start}, and it runs on the CPU{_traffic(finding)}."
    if finding.verdict == "fallback":
        return f"{upgrade}It runs on the CPU without any setting, but slowly{_traffic(finding)}."
    if finding.verdict == "unsupported":
        return upgrade + _unsupported(finding, judged)
    machine = "a Mac" if backends.is_mps(judged) else f"a machine with {backends.label(judged)}"
    return f"No table covers it: ask its library which devices it supports, or try it on {machine}."


def _unsupported(finding: OperatorFinding, judged: Target | None) -> str:
    if not backends.is_mps(judged):
        return f"{backends.label(judged)} raises in any case: change the call, or move it to the CPU by hand."
    if finding.needs_macos:
        return f"macOS {one_line(finding.needs_macos)} or newer has it with this torch."
    wide = [dtype for dtype in finding.dtypes if dtype in WIDE_DTYPES]
    if not wide:
        return "PYTORCH_ENABLE_MPS_FALLBACK does not help: change the call, or move it to the CPU by hand."
    where = f", at {call_site(finding.call_sites[0])}" if finding.call_sites else ""
    instead = " and ".join(NARROWER[dtype] for dtype in wide)
    return f"MPS has no {' or '.join(wide)} in any release: use {instead} there{where}, or keep it on the CPU."


def _traffic(finding: OperatorFinding) -> str:
    """What a run on the CPU costs: bytes there and back, over the whole step."""
    if not finding.input_bytes and not finding.output_bytes:
        return ""
    return f": {byte_size(finding.input_bytes)} there and {byte_size(finding.output_bytes)} back in each step"
