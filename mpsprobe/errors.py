"""The errors that mpsprobe raises on purpose, as one tree.

MpsprobeError                    exit code 2; everything below is one
├── UsageError                   the command was called in a way that cannot work
│   └── UnknownName              a name that nothing answers to; carries the nearest ones
├── MissingPackage               a feature lives in a distribution that is not installed
├── PluginError                  a plugin broke a rule of its hook
├── CheckFailed                  an operator has a verdict that it must not have; exit code 1
├── WorkloadError                a workload could not be found, built or run
│   └── RunFailed                it raised while it ran, and its report says so
├── TableError                   a kernel table, or the wheel it should come from, cannot be read
├── ReportError                  a report cannot be read
└── OutputError                  an output cannot be written

A message says what is wrong; ``hint`` says what to do next. The CLI prints both on standard
error and exits with ``exit_code``; it never shows a traceback for one of these.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mpsprobe.suggestions import nearest, printable, remedy


class MpsprobeError(Exception):
    """Something that the user can understand and act on.

    Args:
        message: what is wrong, one sentence, with the offending value in it.
        hint: what to do next; printed on a line of its own.

    Attributes:
        exit_code: what the process ends with.
    """

    exit_code = 2

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n{self.hint}" if self.hint else self.message


class UsageError(MpsprobeError):
    """The command or function was called in a way that cannot work."""


class UnknownName(UsageError):
    """A name that nothing answers to.

    Args:
        kind: what was asked for, singular, as the vocabulary has it ("workload", "operator", …).
        name: the name that was given.
        known: every name that would have been right; the nearest ones are shown.
        hint: what to do next when no name is near (default: nothing more is said).
    """

    def __init__(self, kind: str, name: str, known: Iterable[str], hint: str | None = None) -> None:
        self.kind = kind
        self.name = name
        self.nearest = nearest(name, known)
        message = f"unknown {kind} '{printable(name)}'"
        if self.nearest:
            message += "; did you mean " + " or ".join(f"'{near}'" for near in self.nearest) + "?"
        super().__init__(message, hint)


EVERYTHING = "mpsprobe[all]"
"""What people install who use mpsprobe; the kits for authors and maintainers are not in it."""
FOR_USERS = frozenset(
    f"mpsprobe-{name}" for name in ("atlas", "coverage", "devices", "exporters", "fix", "hf", "tensorflow")
)
"""The distributions that ``EVERYTHING`` brings."""
THEY_NEED = frozenset(
    {"filelock", "libcst", "ninja", "pillow", "psutil", "scipy", "setuptools", "torch", "transformers"}
)
"""What these need, beyond the core: it is missing only where they were installed without it."""


def install_command(requirement: str) -> str:
    """What to type for a distribution (also with an extra or a lowest version): one command for all that users need."""
    name = requirement.partition(">=")[0]
    return f'pip install "{EVERYTHING if name in FOR_USERS | THEY_NEED else requirement}"'


class MissingPackage(MpsprobeError):
    """A feature lives in a distribution that is not installed.

    Args:
        feature: what was asked for ("the command 'coverage'", "the workload 'vgg16'").
        distribution: what ``pip install`` needs.
    """

    def __init__(self, feature: str, distribution: str) -> None:
        self.distribution = distribution
        super().__init__(
            f"{feature} needs the package {distribution}, which is not installed",
            f"Install it: {install_command(distribution)}",
        )


class PluginError(MpsprobeError):
    """A plugin broke a rule of its hook; the message names its distribution."""


class CheckFailed(MpsprobeError):
    """What was judged has what ``mpsprobe.check`` lets nothing pass with.

    Attributes:
        report: all that was found.
    """

    exit_code = 1

    def __init__(self, message: str, report: object) -> None:
        super().__init__(message)
        self.report = report


class WorkloadError(MpsprobeError):
    """A workload could not be found, built or run."""


class RunFailed(WorkloadError):
    """A workload raised while it ran: a report's ``failure``, not said again to a user who is ``shown`` the report."""

    def __init__(self, failure: Any, shown: bool) -> None:
        cause = "the report says where and why"
        if not shown:
            place = f" at {failure.call_site}" if failure.call_site else ""
            cause = f"{failure.error} in {failure.phase}{place}: {failure.message}"
        more = remedy(RuntimeError(failure.message)) or "The report has what was found before."
        super().__init__(f"the run stopped: {cause}", more)


class TableError(MpsprobeError):
    """A kernel table, or the wheel it should come from, cannot be read."""


class ReportError(MpsprobeError):
    """A report cannot be read."""


class OutputError(MpsprobeError):
    """An output cannot be written; whatever was there before is untouched."""
