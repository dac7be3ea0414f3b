"""What the command tells the program's process, and the files through which that one answers. Imports no torch."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from mpsprobe.protocols import MacOptions

VARIABLE = "MPSPROBE_PROGRAM"
"""The environment variable that holds the settings, in the program and in the processes that it starts."""


ROOM = "Make room for temporary files, or name another folder for them in TMPDIR."
REFUSED = 2
"""The exit code of a program whose device cannot be opened."""


@dataclass(frozen=True, kw_only=True)
class Settings(MacOptions):
    """How a program is run, and the files through which its processes answer."""

    folder: str  # where the answers are written; it is there as long as the command runs
    name: str  # the script, or ``-m`` and the module, as typed
    arguments: Sequence[str]
    prefix: str  # ``sys.prefix`` of the interpreter that runs it; in others nothing happens
    torch: str  # the release that is judged; ``installed`` for that of the program's process
    lines: bool  # whether the source lines of calls are looked for
    device: str = "virtual"
    values: str = "real"
    as_cuda: bool = False  # its own lines see a CUDA device, which leads to the MPS device
    compiles: bool = False  # ``torch.compile`` makes Metal kernels, which are run
    with_bugs: bool = False  # known wrong results that can be computed come out wrong
    verifies: bool = False  # its calls on ``device`` are computed again on the CPU, instead of judged
    keep_going: bool = True  # it goes on where a Mac refuses
    # Of a run without values: line, column, and what is answered there (``recording/branches.py``).
    chosen: Sequence[tuple[str, int, bool]] = field(default_factory=list)

    def as_variable(self) -> str:
        return json.dumps(asdict(self))

    @property
    def report(self) -> Path:
        """The report as JSON, written at the program's end."""
        return Path(self.folder, "report.json")

    @property
    def answers(self) -> Path:
        """What the program got where only values decide, as ``chosen``, and where its loops ran once, as JSON."""
        return Path(self.folder, "answers.json")

    @property
    def refusal(self) -> Path:
        """Why there is no device or no report: message and hint as a JSON list."""
        return Path(self.folder, "refusal.json")

    def offer(self) -> None:
        """Let a process be the program itself: the first that asks ``claim``."""
        Path(self.folder, "program").touch()

    def claim(self) -> bool:
        """Whether this process is the program itself, and not one that it started; ``OSError`` without the folder.

        To take something away needs no room on the disk.
        """
        try:
            Path(self.folder, "program").unlink()
        except FileNotFoundError:
            os.stat(self.folder)  # noqa: PTH116 - raises
            return False
        return True

    def note_process(self) -> None:
        """Say that this is a process that the program started, and that had the device."""
        with suppress(OSError):  # the command has ended, or the program took the folder away
            Path(self.folder, f"process-{os.getpid()}").touch()

    @property
    def process_report(self) -> Path:
        """The report of this process, if the program started it."""
        return Path(self.folder, f"process-{os.getpid()}.json")

    def processes(self) -> list[Path]:
        """The reports of those that the program started, the first one first, whether they left one or not."""
        started = sorted(Path(self.folder).glob("process-*[0-9]"), key=lambda path: path.stat().st_mtime_ns)
        return [path.with_suffix(".json") for path in started]
