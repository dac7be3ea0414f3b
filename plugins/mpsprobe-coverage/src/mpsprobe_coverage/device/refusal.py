"""What a kernel says when it refuses a call, which release takes it, and how that is known."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mpsprobe.schemas import Source


class Refusal(str):
    """The reason for a refusal.

    Attributes:
        accepted_since: the first release that does not refuse any more; None where all do.
        source: the kind of evidence.
        needs_macos: the first macOS on which the same release accepts the call; None where that does not matter.
        evidence: what was found, in a few words: the message, the kernels that are there, the releases of the lists.
    """

    accepted_since: str | None
    source: Source
    evidence: str | None
    needs_macos: str | None

    def __new__(
        cls,
        reason: str,
        accepted_since: str | None = None,
        *,
        source: Source = "message",
        evidence: str | None = None,
        needs_macos: str | None = None,
    ) -> Refusal:
        made = super().__new__(cls, reason)
        made.accepted_since = accepted_since
        made.source = source
        made.evidence = evidence
        made.needs_macos = needs_macos
        return made
