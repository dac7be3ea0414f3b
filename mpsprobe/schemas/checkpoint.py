"""What a checkpoint holds, and what MPS does with it: read from the headers of its files, without loading anything."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from mpsprobe.schemas.record import Exportable, Local, Record
from mpsprobe.schemas.run import Environment

DtypeUse = Literal["computed", "held", "refused", "packed", "unknown"]
"""``computed``: kernels take it. ``held``: a tensor can have it, and is not converted. ``refused``: none can.
``packed``: torch has no such dtype; a library unpacks it. ``unknown``: no table says."""
MpsPath = Literal["metal", "operators", "dequantized", "none", "unknown"]
"""``metal``: kernels of its own. ``operators``: PyTorch's operators, on the GPU. ``dequantized``: unpacked when
it is loaded. ``none``: it does not run on MPS. ``unknown``: not established."""


class StoredDtype(Record):
    """The tensors of one dtype, and of one role."""

    name: str = Field(description="As torch calls it; of a GGUF file as ggml does (`Q4_K`).")
    role: Literal["weights", "packed", "scales"] = Field(
        default="weights",
        description="`packed`: quantized, one or more values in each integer; `scales`: what unpacks these.",
    )
    tensors: int = Field(ge=1, description="How many.")
    parameters: int = Field(ge=0, description="Values in them, as unpacked; 0 for scales.")
    bytes: int = Field(ge=0, description="In the files.")
    use: DtypeUse = Field(description="What MPS does with it in the release that was asked for.")
    since: str | None = Field(default=None, description="From which release of torch on MPS computes with it.")
    reason: str = Field(default="", description="Why it does not compute with it.")
    convert_to: str | None = Field(default=None, description="What to convert it to, where it has to be.")
    converted_bytes: int = Field(ge=0, description="What it then takes; `bytes` where nothing is to convert.")


class Quantization(Record):
    """How a checkpoint is quantized, and what runs that on MPS."""

    method: str = Field(description="As its configuration calls it.")
    bits: int | None = Field(default=None, description="Of one weight; `null` where that is not said.")
    mps: MpsPath = Field(description="What there is for MPS.")
    explanation: str = Field(description="The same in sentences.")
    read_in: str = Field(default="", description="The release of the library in which this was read.")
    sources: list[str] = Field(default=[], description="What establishes it.")


class Adapter(Record):
    """What PEFT's `adapter_config.json` says."""

    method: str = Field(description="Such as `LORA`.")
    base_model: str | None = Field(default=None, description="What it adapts: without it, it is no model.")
    rank: int | None = Field(default=None, description="Of the added matrices.")
    targets: list[str] = Field(default=[], description="Names of the modules that it adds to.")


class CheckpointPart(Record):
    """One component of a pipeline; of any other checkpoint, all of it."""

    name: str = Field(description="The folder's; empty for the checkpoint itself.")
    model_class: str | None = Field(default=None, description="That its configuration names.")
    format: str | None = Field(default=None, description="Of its weights; `null` where it has none.")
    parameters: int = Field(default=0, ge=0, description="Values in its tensors.")
    bytes: int = Field(default=0, ge=0, description="Of its tensors.")
    dtypes: dict[str, int] = Field(default={}, description="Bytes by dtype.")
    quantization: Quantization | None = Field(default=None, description="If it is quantized.")


class CheckpointFile(Record):
    """A file whose tensors are counted."""

    name: str = Field(description="Its path inside the checkpoint.")
    format: Literal["safetensors", "gguf", "pickle"] = Field(description="How it is stored.")
    tensors: int = Field(ge=0, description="In it.")
    bytes: int = Field(ge=0, description="Of the file.")


class PickleImport(Record):
    """Something that a pickled checkpoint imports or calls when it is loaded. Nothing was imported to find it."""

    name: str = Field(description="Module and name.")
    times: int = Field(ge=1, description="How often.")
    kind: Literal["weights", "other", "code"] = Field(
        description="`weights`: `torch.load` allows it by default. `code`: it does not, and it may run any code. "
        "`other`: in older reports, the latter without a known command."
    )


class CheckpointReport(Exportable):
    """What a checkpoint holds, and what MPS does with it."""

    kind: Literal["checkpoint"] = "checkpoint"
    name: Local = Field(description="As the user typed it; the home folder is `~`.")
    path: Local = Field(description="Where it was found.")
    torch: str = Field(description="The release of torch that it is judged for.")
    environment: Environment = Field(description="Where it was read.")
    parameters: int = Field(ge=0, description="Values in its tensors, as unpacked.")
    bytes: int = Field(ge=0, description="Of its tensors, as they are stored.")
    converted_bytes: int = Field(ge=0, description="Of the same after what has to be converted is.")
    sizes: dict[str, int] = Field(default={}, description="Bytes if all floating-point weights had this dtype.")
    machine_bytes: int | None = Field(default=None, description="Memory of the machine that read it.")
    dtypes: list[StoredDtype] = Field(default=[], description="What is inside, the largest first.")
    parts: list[CheckpointPart] = Field(default=[], description="Its components.")
    files: list[CheckpointFile] = Field(default=[], description="Those whose tensors are counted.")
    missing: list[str] = Field(default=[], description="Files that its index names and that are not there.")
    others: list[str] = Field(default=[], description="Further files with weights, which are not counted.")
    adapter: Adapter | None = Field(default=None, description="If it is one.")
    imports: list[PickleImport] = Field(default=[], description="What its pickles import or call.")
    metadata: dict[str, str] = Field(default={}, description="What its files say about themselves.")
    advice: list[str] = Field(default=[], description="What to do, in sentences.")
    notes: list[str] = Field(default=[], description="What else to know.")
