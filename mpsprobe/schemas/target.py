"""What a workload was judged for: a release, of torch or of another framework's plugin, and its kernel table."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Tag

from mpsprobe.schemas.record import Record


class TableProvenance(Record):
    """From which file a kernel table was built.

    Attributes:
        wheel: its file name.
        sha256: of that file, in hexadecimal.
    """

    wheel: str
    sha256: str


class Target(Record):
    """What was judged: a release on MPS.

    Attributes:
        backend: what was judged, as the user types it (``mps``, ``xpu``).
        torch: the release.
        macos_minimum: the oldest macOS that the release runs on.
        macos: the one that was asked for; ``None`` stands for a new one.
        table: the table that was read; ``None`` when the live dispatcher was asked (a build with MPS).
    """

    backend: Literal["mps"] = "mps"
    torch: str
    macos_minimum: str | None = None
    macos: str | None = None
    table: TableProvenance | None = None

    @property
    def version(self) -> str:
        """The release that was judged, of ``software``."""
        return self.torch

    @property
    def software(self) -> str:
        """What has the kernels: ``torch``, or a plugin of another framework."""
        return "torch"


class BackendTarget(Target):
    """What was judged: a release on another backend than MPS.

    Attributes:
        label: the backend as people write it.
        source: what its kernel table was read from, and whose plugin did.
        sha256: of that, in hexadecimal, if it is one file.
        variable: what has an operator without a kernel run on the CPU; ``None`` where nothing does.
        notes: what is not known of the backend, in sentences.
    """

    backend: str  # type: ignore[assignment]
    label: str
    source: str
    sha256: str | None = None
    variable: str | None = None
    notes: list[str] = []


class FrameworkTarget(BackendTarget):
    """What was judged: a release of the plugin that brings a device to another framework than torch.

    Attributes:
        release: of the plugin, which ``backend`` names.
        torch: ``None``: it has no part in it.
    """

    torch: None = None  # type: ignore[assignment]
    release: str

    @property
    def version(self) -> str:
        """The release of the plugin."""
        return self.release

    @property
    def software(self) -> str:
        """The plugin."""
        return self.backend


def _class_of(target: Any) -> str:
    backend = target.get("backend", "mps") if isinstance(target, dict) else getattr(target, "backend", None)
    if backend == "mps":
        return "Target"
    has = "release" in target if isinstance(target, dict) else hasattr(target, "release")
    return "FrameworkTarget" if has else "BackendTarget"


AnyTarget = Annotated[
    Annotated[Target, Tag("Target")]
    | Annotated[BackendTarget, Tag("BackendTarget")]
    | Annotated[FrameworkTarget, Tag("FrameworkTarget")],
    Discriminator(_class_of),
]
"""What was judged, distinguished by ``backend``, ``mps`` or a plugin's; one of another framework has a ``release``."""
