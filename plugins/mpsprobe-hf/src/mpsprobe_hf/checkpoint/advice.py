"""What to do about a checkpoint before it goes to a Mac, in sentences."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from mpsprobe.schemas import CheckpointReport, StoredDtype


def advice_for(report: CheckpointReport) -> list[str]:
    """What to do, the most urgent first."""
    code = [asked.name for asked in report.imports if asked.kind == "code"]
    advice = []
    if code:
        advice.append(
            f"Do not load it: its pickle asks for {_listed(code)}. What is no weights can run any code, so torch.load "
            "refuses it with weights_only=True, its default since torch 2.6. Take the same weights as safetensors; "
            "where you trust who made it, load it once and save its state_dict as that."
        )
    elif report.imports:
        advice.append(
            "It is pickled. Convert it once: torch.load(path, weights_only=True), then save it as safetensors."
        )
    if report.missing:
        advice.append(
            f"{len(report.missing)} of its files {'is' if len(report.missing) == 1 else 'are'} not there "
            f"({_listed(report.missing)}): what follows is about the others. Download it again."
        )
    advice += [*_quantized(report), *_dtypes(report)]
    if report.adapter is not None:
        base = report.adapter.base_model
        of = f": mpsprobe checkpoint {shlex.quote(base)}" if base else ", which it does not name"
        advice.append(f"It is an adapter. What it needs most memory for is the model that it adapts{of}.")
    whole = report.sizes.get("float32", 0)
    most = max(report.dtypes, key=lambda row: row.bytes, default=None)
    wide = most is not None and most.name == "float32"
    if whole and wide and min(report.bytes, report.converted_bytes) >= whole and not code:
        load = "from_pretrained(…, dtype=torch.bfloat16), or " if any(part.model_class for part in report.parts) else ""
        advice.append(
            f"It is stored in 32 bits. In 16 it takes half as much, from torch 2.3 on: {load}model.to(torch.bfloat16)."
        )
    return advice


def _quantized(report: CheckpointReport) -> Iterator[str]:
    for how in {part.quantization.method: part.quantization for part in report.parts if part.quantization}.values():
        if how.mps == "none":
            yield (
                f"{how.method} does not run on MPS: take a checkpoint of the model that is not quantized, or another "
                f"quantization (GGUF, bitsandbytes). {how.explanation}"
            )
        elif how.mps == "unknown":
            yield f"Try {how.method} on the Mac before you rely on it. {how.explanation}"
        else:
            yield how.explanation


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


def _listed(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
