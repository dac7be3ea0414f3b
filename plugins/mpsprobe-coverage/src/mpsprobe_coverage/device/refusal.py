"""What a kernel says when it refuses a call, and which release takes it."""

from __future__ import annotations


class Refusal(str):
    """The reason for a refusal.

    Attributes:
        accepted_since: the first release that does not refuse any more; None where all do.
    """

    accepted_since: str | None

    def __new__(cls, reason: str, accepted_since: str | None = None) -> Refusal:
        made = super().__new__(cls, reason)
        made.accepted_since = accepted_since
        return made
