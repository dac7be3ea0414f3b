"""Pairs, calls and expectations that tests make up."""

from __future__ import annotations

from typing import Any

from mpsprobe_tables.audit.device import Seen
from mpsprobe_tables.audit.running import Pair, Raised, Ran
from mpsprobe_tables.expectations import Expectations, load_expectations

RELEASE = "2.13.0"
UNIMPLEMENTED = "UNIMPLEMENTED_XFAILLIST"
UNDEFINED = "UNDEFINED_XFAILLIST"


def seen(
    operator: str = "aten::abs.out", verdict: str = "native", phase: str = "forward", dtype: str = "float32"
) -> Seen:
    """One kind of call."""
    reason = None if verdict == "native" else "no kernel"
    return Seen(operator, verdict, reason, None, phase, (dtype,), (dtype,))


def pair(entry: str, *calls: Seen, dtype: str = "float32", raised: tuple[Raised, ...] = (), **facts: Any) -> Pair:
    """A pair that ran on the device of ``RELEASE``, with and without lists alike."""
    runs = {(RELEASE, lists): Ran(calls, raised) for lists in ("none", "neighbours")}
    return Pair(entry, dtype, samples=1, runs=runs, **facts)


def expectations(
    listed: dict[str, dict[str, Any]] | None = None, gradient: dict[str, dict[str, Any]] | None = None
) -> Expectations:
    """What ``RELEASE`` is made to expect: list → entry → dtypes (None for all); all of its entries are there."""
    lists, gradient_lists = listed or {}, gradient or {}
    kinds = {f"forward {name}": "skip" if "SKIP" in name else "fail" for name in lists}
    kinds |= {f"gradient {name}": "skip" if "SKIP" in name else "fail" for name in gradient_lists}
    return Expectations(
        release=RELEASE,
        wheel="made.whl",
        sha256="0" * 64,
        kinds=kinds,
        lists=lists,
        gradient_lists=gradient_lists,
        error_input_lists={},
        supported_complex=None,
        unsupported_complex=None,
        claimed={},
        claimed_backward={},
        decorators={},
        entries=load_expectations(RELEASE).entries,
        elsewhere=frozenset(),
        unread=(),
    )
