"""What a command does with its report: the exporters that it names, and the exit code. Imports nothing heavy."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Self

from mpsprobe.plugins.registry import get_registry
from mpsprobe.streams import note

if TYPE_CHECKING:
    from mpsprobe.answers.lookup import Answer
    from mpsprobe.schemas import Report


@dataclass(slots=True)
class Showing:
    """The flags about what is shown, as the commands have them.

    Attributes:
        exporter, others: that of ``--format`` and ``-o``, and those of ``--export`` with their paths.
    """

    format_name: str | None = None
    output: str | None = None
    exports: Collection[str] = ()
    everything: bool = False
    fail_on: Collection[str] = ()
    allow: Collection[str] = ()
    exporter: str = ""
    others: list[tuple[str, str]] = field(default_factory=list)

    @classmethod
    def of_flags(cls, flags: dict[str, Any]) -> Self:
        """Takes those that are about what is shown out of ``flags``."""
        taken = {one.name: flags.pop(one.name) for one in fields(cls) if one.name in flags}
        return cls(**{name: value for name, value in taken.items() if value is not None})

    @property
    def goes_elsewhere(self) -> bool:
        """Whether it is for a file or a gate."""
        return bool(self.output not in (None, "-") or self.exports or self.fail_on or self.allow)

    def at_once(self, answer: Answer) -> bool:
        """Show an answer that is known, if that takes neither pydantic nor an exit code."""
        if self.goes_elsewhere:
            return False
        return answer.write(self.format_name, self.everything)

    def asks(self, what: str) -> bool:
        """Whether one of the exporters asks for a part of the report that is usually left out."""
        registry = get_registry()
        names = [self.format_name, *(text.partition("=")[0] for text in self.exports)]
        if self.output is not None:
            from mpsprobe.exporting import exporter_for

            names.append(exporter_for(registry, self.output))
        exporters = registry.exporters()
        return any(name is not None and name in exporters and what in exporters[name].asks for name in names)

    def choose(self, kind: str, stem: str) -> None:
        """Find the exporters of such a report, before the long work.

        Args:
            stem: of the names of files that ``--export`` does not name.
        """
        from pathlib import PurePath

        from mpsprobe import exporting

        registry = get_registry()
        self.exporter = exporting.choose(registry, self.format_name, self.output, kind)
        self.others = [exporting.further(registry, text, PurePath(stem).name, kind) for text in self.exports]

    def show(self, report: Report) -> str | None:
        """Write ``report`` everywhere; where it went, ``None`` for standard output."""
        from mpsprobe import exporting
        from mpsprobe_coverage.commands.failing import with_allowed

        registry, report = get_registry(), with_allowed(report, self.allow)
        try:
            for other, path in self.others:
                note(f"{other}: {exporting.write(registry, other, report, path)}")
        finally:  # the report is not lost with an export that fails
            written = exporting.write(registry, self.exporter, report, self.output, self.everything)
        if written is not None:
            headline = exporting.shown(report, "table", "headline")  # None where mpsprobe-exporters is not installed
            note("\n".join(filter(None, (headline, f"wrote {written}"))))
        return written

    def exit_code(self, report: Report, written: str | None) -> int:
        """By ``--fail-on``; see ``failing.exit_code``."""
        from mpsprobe_coverage.commands.failing import exit_code

        return exit_code(report, self.fail_on, self.allow, name=self.exporter, written=written)
