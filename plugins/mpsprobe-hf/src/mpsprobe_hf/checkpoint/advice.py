"""What to do about a checkpoint before it goes to a Mac, in sentences."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from mpsprobe.schemas import CheckpointReport, StoredDtype


def advice_for(report: CheckpointReport) -> list[str]:
    """What to do, the most urgent first."""
    return [
        *_trust(report),
        *_whole(report),
        *_quantized(report),
        *_dtypes(report),
        *_adapter(report),
        *_smaller(report),
    ]


def _trust(report: CheckpointReport) -> Iterator[str]:
    code = [one.name for one in report.imports if one.kind == "code"]
    if code:
        yield (
            f"Do not load it: its pickle asks for {_listed(code)}. What is no weights can run any code, so torch.load "
            "refuses it with weights_only=True, its default since torch 2.6. Take the same weights as safetensors; "
            "where you trust who made it, load it once and save its state_dict as that."
        )
    elif report.imports:
        yield "It is pickled. Convert it once: torch.load(path, weights_only=True), then save it as safetensors."


def _whole(report: CheckpointReport) -> Iterator[str]:
    if report.missing:
        yield (
            f"{len(report.missing)} of its files {'is' if len(report.missing) == 1 else 'are'} not there "
            f"({_listed(report.missing)}): what follows is about the others. Download it again."
        )


def _quantized(report: CheckpointReport) -> Iterator[str]:
    for one in {part.quantization.method: part.quantization for part in report.parts if part.quantization}.values():
        if one.mps == "none":
            yield (
                f"{one.method} does not run on MPS: take a checkpoint of the model that is not quantized, or another "
                f"quantization (GGUF, bitsandbytes). {one.explanation}"
            )
        elif one.mps == "unknown":
            yield f"Try {one.method} on the Mac before you rely on it. {one.explanation}"
        else:
            yield one.explanation


def _dtypes(report: CheckpointReport) -> Iterator[str]:
    quantized = any(part.quantization for part in report.parts)
    for row in report.dtypes:
        if row.use == "refused":
            yield f"MPS has no {row.name}.{_convert(row, 'before it is moved')}"
        elif row.use == "held" and not quantized:
            since = f" from torch {row.since} on" if row.since else " in no release yet"
            yield (
                f"MPS computes with {row.name}{since}. On torch {report.torch} it can be moved, and its first "
                f"operator raises.{_convert(row, 'on the CPU')}"
            )


def _convert(row: StoredDtype, when: str) -> str:
    return f" Convert it {when}: tensor.to(torch.{row.convert_to})." if row.convert_to else ""


def _adapter(report: CheckpointReport) -> Iterator[str]:
    if report.adapter is not None:
        base = report.adapter.base_model
        of = f": mpsprobe checkpoint {shlex.quote(base)}" if base else ", which it does not name"
        yield f"It is an adapter. What it needs most memory for is the model that it adapts{of}."


def _smaller(report: CheckpointReport) -> Iterator[str]:
    whole = report.sizes.get("float32", 0)
    code = any(one.kind == "code" for one in report.imports)
    if whole and min(report.bytes, report.converted_bytes) >= whole and not code:
        yield (
            "It is stored in 32 bits. In 16 it takes half as much, from torch 2.3 on: from_pretrained(…, "
            "dtype=torch.bfloat16), or model.to(torch.bfloat16)."
        )


def _listed(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
