"""Values of this plugin's options, with errors that name the nearest right value."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import click

from mpsprobe.errors import UnknownName, UsageError
from mpsprobe.suggestions import printable

if TYPE_CHECKING:
    from mpsprobe_coverage.kernels.backends import BackendTables

ADVISORY = "advisory"
MPS_NAME = "mps"
FAILING = ("missing", "fallback", "unsupported", "unknown", ADVISORY)


class MacosVersion(click.ParamType):
    """A version of macOS: ``14``, ``13.2``, ``26.1``."""

    name = "macos"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if not re.fullmatch(r"\d{2}(\.\d{1,2}){0,2}", str(value).strip()):
            raise UsageError(f"'{printable(str(value))[:40]}' is no version of macOS", "Versions look like 14 or 13.2.")
        return str(value).strip()


class VerdictList(click.ParamType):
    """Verdicts with commas between them, and ``advisory`` for known wrong results."""

    name = "verdicts"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        if isinstance(value, tuple):
            return value
        names = tuple(part.strip() for part in str(value).split(",") if part.strip())
        for name in names:
            if name not in FAILING:
                raise UnknownName("verdict", name, FAILING, "There are: " + ", ".join(FAILING) + ".")
        if not names:
            raise UsageError("--fail-on needs at least one verdict", "There are: " + ", ".join(FAILING) + ".")
        return names


def releases(text: str, backend: BackendTables | None = None) -> list[str]:
    """``--torch`` as exact releases, oldest first; ``installed`` stays as it is.

    ``backend`` brings the releases of another backend than MPS.

    Raises:
        UsageError: an unknown release, or one from before MPS.
    """
    from mpsprobe_coverage.kernels.releases import resolve_release, torch_releases

    if text == "all":
        return list(torch_releases() if backend is None else backend.releases)
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts:
        raise UsageError("--torch needs a release", "For example 2.6.0, installed, latest or all.")
    if "installed" in parts:
        if len(parts) > 1:
            raise UsageError("--torch installed stands alone", "Name the releases by number to compare several.")
        return ["installed"]
    resolve, known = (resolve_release, torch_releases()) if backend is None else (backend.resolve, backend.releases)
    return sorted({resolve(part) for part in parts}, key=known.index)
