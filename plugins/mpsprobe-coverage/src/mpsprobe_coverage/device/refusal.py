"""What a kernel says when it refuses a call, which release takes it, and how that is known."""

from __future__ import annotations

from typing import Literal

Source = Literal["registration", "dtype", "message", "metal", "stub", "list"]
"""What a verdict rests on: what the release registers, a dtype that MPS does not have, a guard's message in the
binary, the names of the Metal kernels in it, a DispatchStub that is never set, or the lists of PyTorch's own tests."""


class Refusal(str):
    """The reason for a refusal.

    Attributes:
        accepted_since: the first release that does not refuse any more; None where all do.
        source: the kind of evidence.
        evidence: what was found, in a few words: the message, the kernels that are there, the releases of the lists.
    """

    accepted_since: str | None
    source: Source
    evidence: str | None

    def __new__(
        cls,
        reason: str,
        accepted_since: str | None = None,
        *,
        source: Source = "message",
        evidence: str | None = None,
    ) -> Refusal:
        made = super().__new__(cls, reason)
        made.accepted_since = accepted_since
        made.source = source
        made.evidence = evidence
        return made
