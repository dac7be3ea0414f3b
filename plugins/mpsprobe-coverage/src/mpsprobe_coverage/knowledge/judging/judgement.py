"""A judgement, and the rules that make them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from mpsprobe_coverage.knowledge.calls.call import Call

if TYPE_CHECKING:
    from mpsprobe.schemas import Source, Verdict


EVERYWHERE = f"raised by PyTorch on every device (seen in torch {torch.__version__.partition('+')[0]})"

ENDS = "ends the process: "
"""What the reason of a call begins with that ends the process instead of raising: a failed assertion of a framework."""


class Judgement(NamedTuple):
    """What becomes of a call, and how that is known. Compared by value: equal ones are one record.

    ``others`` is what releases say that are judged in the same run (``Chain.others``), in their order; None for one
    that needs a run of its own.
    """

    verdict: Verdict  # see ``docs/explanation/verdicts.md``
    reason: str | None = None  # a sentence; None where the verdict says it all
    source: Source | None = None  # None where nothing is known
    evidence: str | None = None  # in a few words: the message, the kernels that are there, the releases of the lists
    accepted_since: str | None = None  # the release from which on the same call is native
    needs_macos: str | None = None  # the first one on which the same release accepts the call, where that matters
    made_at: tuple[str, int] | None = None  # file and line of the tensor in question, if these are not the call's
    asked: tuple[str, ...] = ()  # judges, by the names of their files, in order; the last one answered
    others: tuple[Any, ...] = ()
    remedy: str | None = None  # what to do about such a call, as a sentence; None where the verdict says it

    @property
    def ends_process(self) -> bool:
        return self.reason is not None and self.reason.startswith(ENDS)


def refused(
    reason: str,
    accepted_since: str | None = None,
    *,
    source: Source = "message",
    evidence: str | None = None,
    needs_macos: str | None = None,
) -> Judgement:
    return Judgement("unsupported", reason, source, evidence, accepted_since, needs_macos)


@dataclass(frozen=True)
class Rule:
    """What a judge knows of one operator on one release; equal rules, by function and facts, answer the same."""

    judge: str  # whose rule it is, by the name of the file
    ask: Callable[..., Judgement | None]  # None to pass the call on to the next rule
    facts: tuple[Any, ...] = ()  # what it takes after the call, and answers by
    about: tuple[Any, ...] = field(default=(), compare=False)  # and then; only words and `accepted_since` depend on it
    # It passes every call none of whose tensors has one of these; None for a rule about something else.
    dtypes: frozenset[torch.dtype] | None = None
    only_dtypes: bool = True  # False: a test that passes with one of `dtypes` does not contradict it

    def __call__(self, call: Call) -> Judgement | None:
        return self.ask(call, *self.facts, *self.about)
