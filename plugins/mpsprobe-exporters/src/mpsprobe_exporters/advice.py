"""What to do about one finding: the scanner's own words where it has some, else words by verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mpsprobe_exporters.answer import is_later
from mpsprobe_exporters.plain_text import byte_size, call_site, one_line

if TYPE_CHECKING:
    from mpsprobe.schemas import OperatorFinding

SWITCH = "set PYTORCH_ENABLE_MPS_FALLBACK=1 before `import torch`"
WIDE_DTYPES = ("float64", "complex128")


def advice(finding: OperatorFinding, release: str) -> str:
    """What the user of torch ``release`` can do about ``finding``, in sentences."""
    if finding.advice and finding.advice.strip():
        return one_line(finding.advice, 1000)
    upgrade = ""
    if is_later(finding.native_since, release):
        upgrade = f"Upgrade to torch {one_line(finding.native_since or '')} or later, where it is native. "
    if finding.verdict == "missing":
        start = "Until then, " if upgrade else "No release has a kernel yet. "
        return f"{upgrade}{start}{_sentence(SWITCH, bool(upgrade))}: it then runs on the CPU{_traffic(finding)}."
    if finding.verdict == "fallback":
        return f"{upgrade}It runs on the CPU by itself, without any setting{_traffic(finding)}."
    if finding.verdict == "unsupported":
        return upgrade + _unsupported(finding)
    return "No table covers it: look at its library, or try it on a Mac."


def _unsupported(finding: OperatorFinding) -> str:
    wide = [dtype for dtype in finding.dtypes if dtype in WIDE_DTYPES]
    if not wide:
        return "PYTORCH_ENABLE_MPS_FALLBACK does not help: change the call, or run this part on the CPU."
    narrow = {"float64": "float32", "complex128": "complex64"}
    where = f" The tensor comes from {call_site(finding.call_sites[0])}." if finding.call_sites else ""
    become = " and ".join(f"{dtype} {narrow[dtype]}" for dtype in wide)
    return f"MPS has no {' or '.join(wide)}, in any release: make {become}, or keep it on the CPU.{where}"


def _traffic(finding: OperatorFinding) -> str:
    """What a run on the CPU costs: bytes there and back, over the whole step."""
    if not finding.input_bytes and not finding.output_bytes:
        return ""
    return f" ({byte_size(finding.input_bytes)} to the CPU and {byte_size(finding.output_bytes)} back in each step)"


def _sentence(text: str, inside: bool) -> str:
    return text if inside else text[0].upper() + text[1:]
