"""One pair of an entry and a dtype: what the audit predicts of PyTorch's test, and what PyTorch expects of it.

The tests behind the lists compute each sample on the CPU and on MPS and compare. So a test fails when MPS refuses a
call, when the reference itself raises, and when the numbers differ; only the first is what a verdict speaks of. The
outcomes of a pair are, in the order in which they are looked for:

``internal error``
    The virtual device raised where the plain CPU does not. A mistake of this package, and no verdict.
``refused``
    Some sample meets a call that is judged missing or unsupported.
``reference raises``
    The same sample raises on the CPU (or the gradient does, or there is none), so that no device can pass.
``random``
    Gradients depend on random numbers of the forward pass, so that no two devices agree (gradient test only).
``runs``
    None of these.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from packaging.version import Version

from mpsprobe_coverage.knowledge.judging.lists import Lists
from mpsprobe_tables.audit.device import Seen
from mpsprobe_tables.audit.entries import GRADIENT_DTYPES, entries
from mpsprobe_tables.audit.running import BACKWARD, FORWARD, Pair
from mpsprobe_tables.expectations import UNDEFINED, Expectations

Outcome = Literal["internal error", "refused", "reference raises", "random", "runs"]
Meaning = Literal["pass", "kernel", "numbers"]
FAILING = frozenset({"refused", "reference raises", "random"})
WRONG_NUMBERS = (UNDEFINED, "MACOS_")
"""How the names of those lists begin that say wrong numbers or an old macOS, and not that something is missing."""
EVERYTHING_PASSES = "nothing refused; tests that pass make the same calls"
ONLY_HERE = "nothing refused; with this dtype only here:"
MOST_CALLS = 3
UPCASTS_SINCE = Version("2.11")
"""From here on PyTorch's test computes a reference in float32 where the CPU has no kernel (pull request 172591)."""
PLAIN_SINCE = Version("2.15")
"""From here on the samples of entries that support no gradients ask for none (pull request 195395)."""
UPCAST_DTYPES = frozenset({"float16", "bfloat16", "bool"})
UPCAST_ENTRIES = frozenset({"histc"})
"""Entries whose reference is computed in float32 for every dtype: the test names them."""


@dataclass(frozen=True, slots=True)
class Judged:
    """One test."""

    entry: str
    dtype: str
    gradient: bool
    # What the release's lists say: it passes, it fails for want of a kernel, numbers decide. The last is so too where
    # truth values are compared with a reference in float32 that is not whole (``reference``).
    expected: Meaning
    lists: tuple[str, ...]  # those that say so
    outcome: Outcome
    cause: str  # the operator and why, or the error; for ``runs`` that was expected to fail, what it calls alone
    seen: Seen | None  # the refusing call, if one refuses
    reference_works: bool  # the CPU computes every sample

    @property
    def predicted(self) -> bool:
        """Whether the audit says that the test fails."""
        return self.outcome in FAILING

    @property
    def refused(self) -> bool:
        """Whether the device says that MPS refuses."""
        return self.outcome == "refused"

    @property
    def listed(self) -> Meaning:
        """What the lists alone say, whatever the reference is."""
        return _meaning(self.lists)

    @property
    def agrees(self) -> bool:
        """Whether prediction and expectation are the same; wrong numbers are nobody's prediction."""
        return self.expected == "numbers" or self.predicted == (self.expected == "kernel")


def judge(pairs: Iterable[Pair], expectations: Expectations, lists: Lists) -> list[Judged]:
    """Every test that PyTorch runs in this release and does not skip.

    Args:
        lists: which of the pairs' runs to look at; ``none`` is by mechanism alone.
    """
    tests = list(_tests(pairs, expectations))
    judged = [_judged(pair, expectations, gradient, lists) for pair, gradient in tests]
    passing = {
        call
        for (pair, gradient), judged_pair in zip(tests, judged, strict=True)
        if judged_pair.expected == "pass" and not judged_pair.predicted
        for call in _calls(pair, expectations.release, gradient, lists)
    }
    return [
        test
        if test.agrees or test.outcome != "runs"
        else replace(test, cause=_left_over(pair, test, passing, expectations, lists))
        for (pair, _), test in zip(tests, judged, strict=True)
    ]


def beyond_claims(pairs: Iterable[Pair], expectations: Expectations, lists: Lists) -> list[Judged]:
    """Dtypes that the CPU has and that the entry does not claim for MPS: no test runs them."""
    return [
        _judged(pair, expectations, False, lists)
        for pair in pairs
        if pair.entry in expectations.of("claimed") and not _runs(pair, expectations) and expectations.has(pair.entry)
    ]


def internal_errors(pairs: Iterable[Pair]) -> Iterator[tuple[Pair, str, str]]:
    """Pair, release and what the device raised where the CPU does not; each pair once."""
    for pair in pairs:
        errors = (
            (release, one) for (release, _), ran in pair.runs.items() for one in ran.raised if one.reference_works
        )
        for release, error in errors:
            yield pair, release, f"{error.phase} of sample {error.sample}: {error.message}"
            break


def _tests(pairs: Iterable[Pair], expectations: Expectations) -> Iterator[tuple[Pair, bool]]:
    for pair in pairs:
        if _runs(pair, expectations):
            for gradient in (False, True) if pair.dtype in GRADIENT_DTYPES else (False,):
                if expectations.expected(pair.entry, pair.dtype, gradient).kind != "skip":
                    yield pair, gradient


def _calls(pair: Pair, release: str, gradient: bool, lists: Lists) -> set[tuple[str, tuple[str, ...]]]:
    """Operators with the dtypes of their inputs."""
    calls = pair.runs[release, lists].calls
    return {(seen.operator, seen.inputs) for seen in calls if gradient or seen.phase != BACKWARD}


def _left_over(
    pair: Pair,
    judged: Judged,
    passing: set[tuple[str, tuple[str, ...]]],
    expectations: Expectations,
    lists: Lists,
) -> str:
    """What is known of a failure that nothing explains: the calls that no test makes which passes."""
    rest = _calls(pair, expectations.release, judged.gradient, lists) - passing
    if not rest:
        return EVERYTHING_PASSES
    names = sorted({operator for operator, _ in rest})
    return f"{ONLY_HERE} {', '.join(names[:MOST_CALLS])}" + (", …" if len(names) > MOST_CALLS else "")


def _runs(pair: Pair, expectations: Expectations) -> bool:
    entry = entries()[pair.entry]
    on_cpu = (str(dtype).removeprefix("torch.") for dtype in entry.dtypes)
    return expectations.tests(pair.entry, pair.dtype, on_cpu)


def _judged(pair: Pair, expectations: Expectations, gradient: bool, lists: Lists) -> Judged:
    expected = expectations.expected(pair.entry, pair.dtype, gradient)
    outcome, cause, seen = outcome_of(pair, expectations.release, gradient, lists)
    works = _reference_error(pair, expectations.release, gradient, lists) is None
    meaning = _meaning(expected.lists)
    if outcome == "runs" and not pair.exact and _computed_again(pair, expectations.release):
        meaning = "numbers"
    return Judged(pair.entry, pair.dtype, gradient, meaning, expected.lists, outcome, cause, seen, works)


def _meaning(lists: tuple[str, ...]) -> Meaning:
    if not lists:
        return "pass"
    return "numbers" if all(name.removeprefix("gradient ").startswith(WRONG_NUMBERS) for name in lists) else "kernel"


def outcome_of(pair: Pair, release: str, gradient: bool, lists: Lists) -> tuple[Outcome, str, Seen | None]:
    """Outcome, cause and the refusing call of one test of ``pair``."""
    ran = pair.runs[release, lists]
    internal = [error for error in ran.raised if error.reference_works and (gradient or error.phase != BACKWARD)]
    if internal:
        return "internal error", f"{internal[0].phase} of sample {internal[0].sample}: {internal[0].message}", None
    seen = next((seen for seen in ran.calls if seen.refuses and (gradient or seen.phase != BACKWARD)), None)
    if seen is not None:
        return "refused", f"{seen.operator} {seen.verdict}: {seen.reason}", seen
    error = _reference_error(pair, release, gradient, lists)
    if error is not None:
        return "reference raises", error, None
    if gradient and pair.random_gradient:
        return "random", "its gradients depend on random numbers of the forward pass", None
    return "runs", "", None


def _reference_error(pair: Pair, release: str, gradient: bool, lists: Lists) -> str | None:
    """What the reference raises in the test of this release, or what it and the device raise alike."""
    if pair.drawing is not None:
        return f"drawing samples: {pair.drawing}"
    plain = not pair.differentiable and Version(release) >= PLAIN_SINCE
    first = pair.plain if plain else pair.forward
    if first is not None and not _computed_again(pair, release):
        return first
    if plain:
        return pair.plain_gradient if gradient else None
    # What the device checks before any kernel runs, a Mac checks as well, and there is no second try with MPS.
    alike = next((error for error in pair.runs[release, lists].raised if error.phase == FORWARD), None)
    if alike is not None:
        return f"sample {alike.sample}, as MPS does: {alike.message}"
    return pair.gradient if gradient else None


def _computed_again(pair: Pair, release: str) -> bool:
    """Whether the test of this release computes the reference in float32."""
    again = pair.dtype in UPCAST_DTYPES or pair.entry in UPCAST_ENTRIES
    return pair.upcast and again and Version(release) >= UPCASTS_SINCE


def by_test(judged: Iterable[Judged]) -> Mapping[str, list[Judged]]:
    """Grouped by the row that they count in: a dtype, or ``gradient`` and a dtype.

    A gradient test whose forward part is expected to fail fails with it and says nothing of its own; it is left out.
    """
    rows: dict[str, list[Judged]] = {}
    for test in judged:
        if test.gradient and any(not name.startswith("gradient ") and name != "decorators" for name in test.lists):
            continue
        rows.setdefault(f"gradient {test.dtype}" if test.gradient else test.dtype, []).append(test)
    return rows
