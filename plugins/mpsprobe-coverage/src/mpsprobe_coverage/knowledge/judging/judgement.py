"""A judgement, and the rules that make them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import torch

from mpsprobe_coverage.knowledge.calls.call import Call

if TYPE_CHECKING:
    from mpsprobe.schemas import Source, Verdict


EVERYWHERE = f"raised by PyTorch on every device (seen in torch {torch.__version__.partition('+')[0]})"

ENDS = "ends the process: "
"""What the reason of a call begins with that ends the process instead of raising: a failed assertion of a framework."""


class Judgement(NamedTuple):
    """What becomes of a call, and how that is known. Compared by value: equal ones are one record.

    Attributes:
        verdict: see ``docs/explanation/verdicts.md``.
        reason: why, in a sentence; None where the verdict says it all.
        source: the kind of evidence; None where nothing is known.
        evidence: what was found, in a few words: the message, the kernels that are there, the releases of the lists.
        accepted_since: the first release from which on the same call is native; None where none is.
        needs_macos: the first macOS on which the same release accepts the call; None where that does not matter.
        made_at: file and line that made the tensor in question, where it is another one than the call's.
        asked: the judges that were asked, by the names of their files, in order; the last one answered.
        others: what releases say that are judged in the same run (``Chain.others``), in their order; None for one that
            needs a run of its own.
    """

    verdict: Verdict
    reason: str | None = None
    source: Source | None = None
    evidence: str | None = None
    accepted_since: str | None = None
    needs_macos: str | None = None
    made_at: tuple[str, int] | None = None
    asked: tuple[str, ...] = ()
    others: tuple[Any, ...] = ()

    @property
    def ends_process(self) -> bool:
        """Whether the call ends the process, which no ``try`` catches."""
        return self.reason is not None and self.reason.startswith(ENDS)


def refused(
    reason: str,
    accepted_since: str | None = None,
    *,
    source: Source = "message",
    evidence: str | None = None,
    needs_macos: str | None = None,
) -> Judgement:
    """The judgement on a call that raises."""
    return Judgement("unsupported", reason, source, evidence, accepted_since, needs_macos)


class Rule(Protocol):
    """What a judge knows of one operator on one release. A frozen dataclass: equal rules answer the same.

    Attributes:
        judge: whose rule it is, by the name of the file.
        dtypes: the rule passes every call none of whose tensors has one of these; None for a rule about something else.
    """

    @property
    def judge(self) -> str: ...

    @property
    def dtypes(self) -> frozenset[torch.dtype] | None: ...

    def __call__(self, call: Call) -> Judgement | None:
        """The judgement on ``call``; None to pass it on to the next rule."""
