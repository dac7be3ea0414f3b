"""What the command tells the program's process, and the files through which that one answers. Imports no torch."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

VARIABLE = "MPSPROBE_PROGRAM"
"""The environment variable that holds the settings, in the program and in the processes that it starts."""
START = Path(__file__).with_name("start")
"""The folder that stands first in ``PYTHONPATH`` there; Python imports its ``sitecustomize`` before the program."""


@dataclass(frozen=True)
class Settings:
    """How a program is run.

    Attributes:
        folder: where the answers are written; it is there as long as the command runs.
        name: the script, or ``-m`` and the module, as typed.
        arguments: the program's own.
        device: ``virtual`` or ``mps``.
        values: ``real`` or ``none``.
        torch: the release that is judged; ``installed`` for that of the program's process.
        macos: the version that is judged; ``None`` for a new one.
        chip: the Mac's that is judged and that ``torch.mps`` answers for; ``None`` for any.
        keep_going: whether the program goes on where a Mac refuses.
        lines: whether the source lines of calls are looked for.
        prefix: ``sys.prefix`` of the interpreter that runs it; in others nothing happens.
    """

    folder: str
    name: str
    arguments: tuple[str, ...]
    device: str
    values: str
    torch: str
    macos: str | None
    chip: str | None
    keep_going: bool
    lines: bool
    prefix: str

    def as_variable(self) -> str:
        """The value of the environment variable."""
        return json.dumps(asdict(self))

    @classmethod
    def from_variable(cls, value: str) -> Settings:
        """What ``as_variable`` wrote."""
        read = json.loads(value)
        return cls(**{**read, "arguments": tuple(read["arguments"])})

    @property
    def report(self) -> Path:
        """The report as JSON, written at the program's end."""
        return Path(self.folder, "report.json")

    @property
    def refusal(self) -> Path:
        """Why there is no device or no report: message and hint as a JSON list."""
        return Path(self.folder, "refusal.json")

    def claim(self) -> bool:
        """Whether this process is the program itself, and not one that it started: the first to ask."""
        try:
            os.close(os.open(Path(self.folder, "program"), os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        except FileExistsError:
            return False
        return True

    def note_process(self) -> None:
        """Say that this is a process that the program started, and that had the device."""
        if Path(self.folder).is_dir():
            Path(self.folder, f"process-{os.getpid()}").touch()

    @property
    def process_report(self) -> Path:
        """The report of this process, if the program started it."""
        return Path(self.folder, f"process-{os.getpid()}.json")

    def processes(self) -> list[Path]:
        """Those that the program started, the first one first: the report of each, where it left one."""
        started = sorted(Path(self.folder).glob("process-*[0-9]"), key=lambda one: one.stat().st_mtime_ns)
        return [one.with_suffix(".json") for one in started]
