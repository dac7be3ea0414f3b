"""What to do about one finding: the scanner's own words where it has some, else words by verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mpsprobe_exporters.answer import WIDE_DTYPES, cure
from mpsprobe_exporters.plain_text import byte_size, call_site, one_line

if TYPE_CHECKING:
    from mpsprobe.schemas import OperatorFinding

SWITCH = "set PYTORCH_ENABLE_MPS_FALLBACK=1 before `import torch`"
NARROWER = {"float64": "float32", "complex128": "complex64"}
LONGEST = 1000


def advice(finding: OperatorFinding, release: str) -> str:
    """What the user of torch ``release`` can do about ``finding``, in sentences."""
    if finding.advice and finding.advice.strip():
        return one_line(finding.advice, LONGEST)
    since = cure(finding, release)
    upgrade = f"Upgrade to torch {one_line(since)} or later, where it is native. " if since else ""
    if finding.verdict == "missing":
        start = f"Until then, {SWITCH}" if since else f"No release has a kernel yet: {SWITCH}"
        return f"{upgrade}{start}, and it runs on the CPU{_traffic(finding)}."
    if finding.verdict == "fallback":
        return f"{upgrade}It runs on the CPU without any setting, but slowly{_traffic(finding)}."
    if finding.verdict == "unsupported":
        return upgrade + _unsupported(finding)
    return "No table covers it: ask its library which devices it supports, or try it on a Mac."


def _unsupported(finding: OperatorFinding) -> str:
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
