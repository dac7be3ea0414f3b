"""A run: what was run, where, and what it was judged for."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from mpsprobe.schemas.record import First, Local, Record, Unite


class WorkloadInfo(Record):
    """One workload as it was run."""

    name: Local = Field(description="As the user typed it; the home folder is `~`.")
    architecture: Unite[str] = Field(description="The model's class.")
    phase: Literal["inference", "training", "generate", "program"] = Field(description="What was run.")
    dtype: Unite[str] = Field(description="Of the parameters.")
    parameters: First[int] = Field(ge=0, description="Each shared one counted once.")
    batch_size: First[int | None] = Field(default=None, description="Samples in a step; `None`: it has no such thing.")
    seq_len: First[int | None] = Field(default=None, description="Tokens or frames in a sample; `None`: it has none.")
    autocast: str | None = Field(default=None, description="The dtype of autocast; `None` without.")
    grad_accum: First[int] = Field(default=1, description="Backward passes for each update.")
    optimizer: str | None = Field(default=None, description="Its class, in training.")
    trained: First[int | None] = Field(default=None, description="The parameters that it updates, where not all.")
    lora_rank: First[int | None] = Field(default=None, description="Of the model's LoRA adapters; `None` without.")
    weights: bool = Field(default=False, description="Whether real weights were loaded.")
    notes: Unite[list[str]] = Field(default=[], description="What a reader should know, for example of the inputs.")


class Environment(Record):
    """Versions of what took part; ``None`` for what was not installed or not used.

    The release that traced the operators need not be the one that was judged: compositions differ a little between
    releases.
    """

    mpsprobe: str = Field(description="Its version.")
    python: str = Field(description="Its version.")
    platform: str = Field(description="System and processor (`macos-14.5-arm64`, `linux-x86_64`).")
    torch: str | None = Field(default=None, description="The release that traced or ran.")
    torch_build: str | None = Field(default=None, description="Local part of its version (`cpu`, `cu128`), if any.")
    transformers: str | None = Field(default=None, description="Its version.")
    torchvision: str | None = Field(default=None, description="Its version.")
    tensorflow: str | None = Field(default=None, description="The release that traced, where it did.")
    keras: str | None = Field(default=None, description="Its version, likewise.")


class TableProvenance(Record):
    """From which file a kernel table was built."""

    wheel: str = Field(description="Its file name.")
    sha256: str = Field(description="Of that file, in hexadecimal.")


class Target(Record):
    """What was judged: a release on MPS."""

    backend: Literal["mps"] = Field(default="mps", description="As the user types it (`mps`, `xpu`).")
    torch: str = Field(description="The release.")
    macos_minimum: str | None = Field(default=None, description="The oldest macOS that the release runs on.")
    macos: str | None = Field(default=None, description="The one that was asked for; `None` stands for a new one.")
    table: TableProvenance | None = Field(default=None, description="What was read; `None`: the live dispatcher.")

    @property
    def version(self) -> str:
        """The release that was judged, of ``software``."""
        return self.torch or str(getattr(self, "release", ""))

    @property
    def software(self) -> str:
        """What has the kernels: ``torch``, or a plugin of another framework."""
        return "torch" if self.torch else self.backend


class BackendTarget(Target):
    """What was judged: a release on another backend than MPS."""

    backend: str = Field(description="As the user types it (`xpu`).")  # type: ignore[assignment]
    label: str = Field(description="The backend as people write it.")
    source: str = Field(description="What its kernel table was read from, and whose plugin did.")
    sha256: str | None = Field(default=None, description="Of that, in hexadecimal, if it is one file.")
    variable: str | None = Field(default=None, description="What sends operators without a kernel to the CPU.")
    notes: list[str] = Field(default=[], description="What is not known of the backend, in sentences.")


class FrameworkTarget(BackendTarget):
    """What was judged: a release of the plugin that brings a device to another framework than torch."""

    torch: None = Field(default=None, description="`None`: it has no part in it.")  # type: ignore[assignment]
    release: str = Field(description="Of the plugin, which `backend` names.")


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
