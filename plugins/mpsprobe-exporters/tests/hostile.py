"""Strings that want to break out of wherever they are put, and reports made of them."""

from __future__ import annotations

from typing import Any

from example_reports import BERT, ENVIRONMENT, SIZES, coverage, finding
from hypothesis import strategies as st

from mpsprobe.schemas import CoverageReport, MatrixCell, MatrixReport

HOSTILE = [
    "\x1b[31mred\x1b[0m\x1b]0;title\x07",
    "<script>alert(1)</script>",
    "<!-- comment",
    "../../etc/passwd",
    'quote"and,comma;semicolon',
    "line\nbreak\r\nand\ttab\x0b\x0c\x85\u2028\u2029",
    "=HYPERLINK(1)",
    "+1",
    "-1",
    "@SUM(1)",
    " =1",
    "\uff1d1",
    "a" * 5000,
    "word " * 1000,
    "\u202eright to left\u202c\u200f",
    "zero\u200bwidth\ufeff",
    "`code` ``` *bold* _under_ [link](http://example.com) ![x](y) ~~gone~~ | cell |",
    "\\",
    "\\|",
    "`\\`|",
    "| a | b |",
    "# heading",
    "{0..3}.{a,b}",
    "[red]markup[/red] :smile:",
    "\ud800",
    "\x00",
    "日本語のモジュール名",
    "e\u0301\u0302",
    "$x^2$ @someone #1",
    " ",
    "",
]

texts = (
    st.sampled_from(HOSTILE) | st.text(max_size=60) | st.text(alphabet="|`\\<>&*_[]{}=+-@\n .:0123456789a", max_size=40)
)


def hostile_advisory(text: str) -> dict[str, Any]:
    """A known wrong result with ``text`` wherever it takes a string."""
    words = ("id", "title", "condition", "symptom", "workaround", "hardware")
    places = {"sources": [text], "operators": [text], "modules": [text], "call_sites": [text]}
    affected = {"torch": {"since": text, "fixed": text}, "macos": {"seen": [text]}}
    return {**dict.fromkeys(words, text), **places, **affected, "calls": 1, "phases": {text: 1}}


def hostile_coverage(text: str) -> CoverageReport:
    """A report with ``text`` wherever a report takes a string."""
    places: dict[str, Any] = {"modules": [text, f"a.0.{text}", f"a.1.{text}"], "call_sites": [text, f"/x/{text}:1"]}
    words: dict[str, Any] = {"reason": text, "advice": text, "native_since": text, "shapes": [text], "dtypes": [text]}
    findings = [
        finding(text, "missing", phases={text: 1}, **places, **words),
        finding(f"aten::{text}", "unknown", phases={"forward": 1}, **places),
        finding(f"native{text}", **places, **words),
    ]
    failure = {"phase": text, "error": text, "message": text, "module": text, "call_site": text}
    return coverage(
        text,
        findings,
        workload={
            **BERT,
            **SIZES,
            "name": text,
            "architecture": text,
            "dtype": text,
            "notes": [text],
            "optimizer": text,
        },
        environment={**ENVIRONMENT, "torch": text, "torch_build": text, "platform": text, "transformers": text},
        not_judged=[{"operator": text, "reason": text, "call_sites": [text]}],
        data_dependence=[{"operator": text, "assumed": text, "call_sites": [text]}],
        advisories=[hostile_advisory(text)],
        failure=failure,
    )


def hostile_matrix(text: str) -> MatrixReport:
    """A matrix with ``text`` wherever it takes a string."""
    one = hostile_coverage(text)
    cell = {"target": {"torch": text}, "summary": one.summary, "failure": one.failure}
    return MatrixReport(
        method="predicted",
        workload=one.workload,
        environment=one.environment,
        native_since=text,
        releases=[
            MatrixCell.model_validate(
                {**cell, "findings": {text: "missing", f"b{text}": "unsupported"}, "advisories": [text]}
            ),
            MatrixCell.model_validate({**cell, "target": {"torch": f"2.0.{text}"}, "findings": {text: "fallback"}}),
        ],
        operators=one.operators,
        not_judged=one.not_judged,
        data_dependence=one.data_dependence,
        advisories=one.advisories,
    )
