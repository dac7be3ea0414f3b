"""The program's process from its start to its end: opens the device once torch is imported, writes the report at exit.

Nothing is imported here that the program has not asked for: torch reads environment variables while it is imported, and
a script may set them before. Python itself runs the program, so this module has three footholds: a finder that waits
for ``import torch``, a function at exit that was registered first and so is called last, and one after each fork.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib.machinery
import json
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from time import monotonic
from types import ModuleType
from typing import TYPE_CHECKING, Any

from mpsprobe_coverage.programs.settings import REFUSED, ROOM, Settings
from mpsprobe_coverage.programs.tracebacks import OURS, without_our_frames

if TYPE_CHECKING:
    from mpsprobe_coverage.programs.session import Session
    from mpsprobe_coverage.programs.verifying import Verifying

_kept: list[Process] = []  # the device lives as long as the process


def begin(value: str) -> None:
    """Called before the program begins, in its process and in those that it starts, with the variable's value."""
    settings = Settings(**json.loads(value))
    if Path(sys.argv[0]).name in ("mpsprobe", "mpsprobe.exe"):  # a command that the program started
        return
    try:
        itself = settings.claim()
    except OSError:  # the command that ran the program has ended
        return
    process = Process(settings, itself)
    process.hooks.enter_context(without_our_frames(lambda file: file.startswith(OURS)))
    _kept.append(process)
    atexit.register(process.end)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=process.forked)
    sys.meta_path.insert(0, AfterImport("torch", process.open))


class Process:
    """One process of a program: the program ``itself``, or one that it started."""

    def __init__(self, settings: Settings, itself: bool) -> None:
        self.settings = settings
        self.itself = itself
        self.copied = False
        self.started = monotonic()
        self.hooks = contextlib.ExitStack()
        self.session: Session | Verifying | None = None
        self.why: tuple[str, ...] = ("the program did not import torch",)  # there is no session

    def open(self) -> None:
        """The device, right after torch was imported.

        Where there is none, the program ends here. Whatever else goes wrong, it goes on, and has no report.
        """
        from mpsprobe.errors import MpsprobeError

        before, torch = monotonic(), sys.modules["torch"]
        if not hasattr(torch, "_C"):
            self.why = (f"what it imports as torch is not PyTorch: {getattr(torch, '__file__', torch)}",)
            return
        try:
            if not self.settings.verifies:
                from mpsprobe_coverage.programs.session import Session

                self.session = Session(self.settings)
            elif self.itself:
                from mpsprobe_coverage.programs.verifying import Verifying

                self.session = Verifying(self.settings)
        except MpsprobeError as error:
            if not self.itself:
                raise
            with contextlib.suppress(OSError):
                self._answer(self.settings.refusal, json.dumps([error.message, error.hint, True]))
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
            os._exit(REFUSED)
        except KeyboardInterrupt as error:
            self.why = ("it was interrupted before there was a device",)
            raise error.with_traceback(None) from None
        except Exception as error:  # noqa: BLE001 - the program is not to end by it
            self.why = _unexpected(error)
        if not self.itself:
            self.settings.note_process()
        self.started += monotonic() - before

    def forked(self) -> None:
        """In a process that is a copy of this one: what was seen until now is reported by the other."""
        self.copied = True
        self.itself = False
        self.settings.note_process()

    def end(self) -> None:
        """Close the device and write the report of this process."""
        self.hooks.close()
        if self.copied:
            if self.session is not None:
                self.session.close()
            return
        try:
            seconds = monotonic() - self.started
            if hasattr(signal, "SIGXFSZ"):  # a program may limit the size of files, and not ignore it
                signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            if self.session is not None:
                path = self.settings.report if self.itself else self.settings.process_report
                self._answer(path, self.session.end(seconds))
                if self.itself and (answers := self.session.answers()) is not None:
                    self._answer(self.settings.answers, answers)
            elif self.itself:
                self._no_report(*self.why)
        except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - the program ran, and its exit code is its own
            why: tuple[str, ...] = ("it was interrupted while the report was made",)
            if isinstance(error, OSError):
                why = f"it cannot be written: {error.strerror or error}", ROOM
            elif isinstance(error, Exception):
                why = _unexpected(error)
            if self.itself:  # of others the command counts those that left no report
                with contextlib.suppress(Exception):
                    self._no_report(*why)

    def _no_report(self, why: str, hint: str | None = None) -> None:
        self._answer(self.settings.refusal, json.dumps([why, hint, False]))

    def _answer(self, path: Path, text: str) -> None:
        """Whole or not at all: the process may be killed while it writes."""
        unfinished = path.with_suffix(".unfinished")
        try:
            unfinished.write_text(text, encoding="utf-8")
            unfinished.replace(path)
        except OSError:
            with contextlib.suppress(OSError):
                unfinished.unlink()  # there is to be room for a sentence
            raise


def _unexpected(error: Exception) -> tuple[str, ...]:
    """In words, and what to do. Nothing is imported for it: the program may have changed what there is."""
    if os.environ.get("MPSPROBE_DEBUG"):
        sys.excepthook(type(error), error, error.__traceback__)
    if isinstance(error, MemoryError):
        return ("the program left no memory for it",)
    hint = "This is a bug, unless the program changes modules of Python or torch. MPSPROBE_DEBUG=1 shows where."
    return f"unexpected {type(error).__name__}: {error}", hint


class AfterImport:
    """A finder that finds what the others find, and calls ``then`` once the module ``name`` has been imported."""

    def __init__(self, name: str, then: Callable[[], None]) -> None:
        self.name = name
        self.then = then

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The spec that another finder has for ``name``; whoever only asks for it changes nothing."""
        if name != self.name:
            return None
        others = (finder for finder in sys.meta_path if finder is not self)
        spec = next(filter(None, (finder.find_spec(name, path, target) for finder in others)), None)
        if spec is not None and spec.loader is not None:
            loader: Any = spec.loader
            execute = loader.exec_module

            def exec_module(module: ModuleType) -> None:
                del loader.exec_module
                execute(module)
                if self in sys.meta_path:
                    sys.meta_path.remove(self)
                    self.then()

            loader.exec_module = exec_module
        return spec
