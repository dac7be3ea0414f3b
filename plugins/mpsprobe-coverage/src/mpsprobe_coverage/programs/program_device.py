"""What the session of a program asks of a device, whichever it is."""

from __future__ import annotations

from typing import Protocol, Self

from mpsprobe_coverage.recording.attribution import Attribution
from mpsprobe_coverage.recording.recorder import Recorder


class ProgramDevice(Protocol):
    """A device on which a whole program runs, open between ``with``'s ends.

    Attributes:
        name: as the report calls it.
        recorder: what was called; whole after ``finish``.
        attribution: whose calls they were.
    """

    @property
    def name(self) -> str: ...

    @property
    def recorder(self) -> Recorder: ...

    @property
    def attribution(self) -> Attribution: ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *error: object) -> None: ...

    def finish(self) -> None:
        """Bring everything that was counted into ``recorder``. The device may stay open."""
