"""From files to the report: dtypes with what MPS does with them, what to convert to, and what it then takes."""

from __future__ import annotations

import contextlib
import os
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mpsprobe.environment import collect_environment
from mpsprobe.errors import MpsprobeError, WorkloadError
from mpsprobe.schemas import (
    Adapter,
    CheckpointFile,
    CheckpointPart,
    CheckpointReport,
    DtypeUse,
    PickleImport,
    Quantization,
    StoredDtype,
)
from mpsprobe.suggestions import printable
from mpsprobe_coverage.knowledge.kernels.dtypes import dtype_use
from mpsprobe_coverage.knowledge.kernels.mps import MPS_FAMILY
from mpsprobe_coverage.knowledge.kernels.releases import INSTALLED, installed_release
from mpsprobe_hf.checkpoint.advice import advice_for
from mpsprobe_hf.checkpoint.dtypes import BITS, COMPUTED_IN, NEAREST, is_float
from mpsprobe_hf.checkpoint.folders import Weights, entries, format_of, read_file, read_weights, shards_of, text_of
from mpsprobe_hf.checkpoint.pickled import kind_of
from mpsprobe_hf.checkpoint.quantization import Quantized, Role, of_file, quantization_of
from mpsprobe_hf.checkpoint.reading import check_inside, damaged, read_json

CONFIG, ADAPTER, PIPELINE = "config.json", "adapter_config.json", "model_index.json"
OLDER = ("quantize_config.json", "quant_config.json", "hf_quant_config.json")
"""Where GPTQ, AWQ and ModelOpt kept their settings before config.json had a place for them."""
UNPACKED = ("none", "dequantized")
"""Of ``mpsprobe.schemas.MpsPath``: with these a quantized checkpoint does not stay packed on MPS."""
MOST_PARTS, MOST_TARGETS, MOST_IMPORTS = 50, 100, 200


@dataclass(slots=True)
class Component:
    """A folder with a configuration and weights, read. Of a pipeline it has a name."""

    name: str
    model_class: str | None
    weights: Weights
    quantized: Quantized | None


@dataclass(slots=True)
class _Amount:
    tensors: int = 0
    parameters: int = 0
    bytes: int = 0


def judged_release(text: str | None) -> str:
    """The release that ``--torch TEXT`` means; without it the installed one, or the newest if that has no table."""
    if text is None:
        with contextlib.suppress(MpsprobeError):
            return MPS_FAMILY.resolve(installed_release())
    return MPS_FAMILY.resolve(installed_release() if text == INSTALLED else text or "latest")


def read_checkpoint(name: str, path: Path, release: str) -> CheckpointReport:
    """The report of the checkpoint at ``path``, judged for one torch release that has a table."""
    try:
        return _read(name, path, release)
    except OSError as error:  # a disk or a network that fails while it is read
        why = printable(str(error.strerror or error))
        raise damaged(path, f"cannot be read: {why}", "Copy it to a disk of this machine.") from error


def _read(name: str, path: Path, release: str) -> CheckpointReport:
    adapter, notes = None, []
    if not path.is_dir():
        components = [_single(path)]
        if (count := shards_of(path.name)) > 1:
            notes.append(f"it is one of {count} files: give its folder to count them all")
    elif PIPELINE in (names := entries(path)):
        components = _pipeline(path, names, notes)
    else:
        components = [_component("", path, names)]
        adapter = _adapter(read_json(path / ADAPTER)) if ADAPTER in names else None
        if adapter is None and not components[0].weights.files:
            raise _nothing(path, names)
    return _report(name, path, release, components, adapter, notes)


def _single(path: Path) -> Component:
    weights = read_file(path)
    near = path.parent / CONFIG
    config = read_json(near) if near.is_file() and weights.format == "safetensors" else {}
    return Component("", _class(config), weights, of_file(weights.format) or quantization_of(config))


def _component(name: str, folder: Path, names: list[str]) -> Component:
    config = read_json(folder / CONFIG) if CONFIG in names else {}
    older = [read_json(folder / file) for file in OLDER if file in names and not config.get("quantization_config")]
    for settings in older:  # which had no need to name their method
        method = "awq" if "w_bit" in settings else "modelopt" if "producer" in settings else "gptq"
        settings.setdefault("quant_method", method)
    weights = read_weights(folder)
    return Component(name, _class(config), weights, of_file(weights.format) or quantization_of(config, *older))


def _class(config: Mapping[str, Any]) -> str | None:
    named = config.get("architectures")
    first = named[0] if isinstance(named, list) and named else config.get("_class_name")
    if isinstance(first, str):
        return printable(first)
    return text_of(config, "model_type") or text_of(config, "architecture")  # the latter of timm


def _pipeline(folder: Path, names: list[str], notes: list[str]) -> list[Component]:
    """Diffusers' layout: a component is an entry of ``model_index.json`` that is a pair, and has a folder."""
    components = []
    for name, value in list(read_json(folder / PIPELINE).items())[:MOST_PARTS]:
        if not (isinstance(value, list) and len(value) == 2 and all(isinstance(word, str) for word in value)):
            continue
        if name not in names or not (folder / name).is_dir():  # a name in ``names`` is no path that leads elsewhere
            notes.append(f"the component '{printable(name)}' has no folder: it may not have been downloaded")
            continue
        check_inside(folder, folder / name)
        component = _component(name, folder / name, entries(folder / name))
        if component.weights.files:
            component.model_class = printable(value[1])
            components.append(component)
    if not components:
        raise damaged(folder, f"has a {PIPELINE}, and no component with weights", "Download the whole pipeline.")
    return components


def _adapter(config: Mapping[str, Any]) -> Adapter:
    rank, targets = config.get("r"), config.get("target_modules")
    named = [targets] if isinstance(targets, str) else targets if isinstance(targets, list) else []
    return Adapter(
        method=text_of(config, "peft_type") or "unknown",
        base_model=text_of(config, "base_model_name_or_path"),
        rank=rank if type(rank) is int and 0 < rank < 2**31 else None,
        targets=sorted(printable(target) for target in named if isinstance(target, str))[:MOST_TARGETS],
    )


def _nothing(folder: Path, names: list[str]) -> WorkloadError:
    near = [name for name in [name for name in names if (folder / name).is_dir()][:100] if _weighs(folder / name)]
    if near:
        hint = "Did you mean " + " or ".join(printable(str(folder / name)) for name in near[:3]) + "?"
    else:
        hint = "A checkpoint has *.safetensors, *.gguf, or what torch.save wrote (*.bin, *.pt, *.pth, *.ckpt)."
    return damaged(folder, "holds no weights", hint)


def _weighs(folder: Path) -> bool:
    try:
        return any(format_of(Path(name)) or name == PIPELINE for name in entries(folder))
    except WorkloadError:
        return False


def _report(
    name: str, path: Path, release: str, components: list[Component], adapter: Adapter | None, notes: list[str]
) -> CheckpointReport:
    target = next(dtype for dtype in COMPUTED_IN if dtype_use(dtype, release).use == "computed")
    amounts: dict[tuple[str, Role, bool], _Amount] = {}
    parts = [_part(component, amounts) for component in components]
    rows = [_row(*key, amount, release, target) for key, amount in amounts.items()]
    rows.sort(key=lambda row: (-row.bytes, row.name, row.role))
    opaque = [part.quantized.method for part in components if part.quantized and part.quantized.backend.opaque]
    notes += [
        f"how many weights {method} packs does not follow from its tensors: elements are counted"
        for method in dict.fromkeys(opaque)
    ]
    files: list[CheckpointFile] = []
    missing: list[str] = []
    others: list[str] = []
    imports: Counter[tuple[str, str]] = Counter()
    metadata: dict[str, str] = {}
    for component in components:
        weights, prefix = component.weights, f"{component.name}/" if component.name else ""
        missing += [prefix + printable(file) for file in weights.missing]
        others += [prefix + printable(file) for file in weights.others]
        if weights.missing and weights.total:
            notes.append(f"by its index the tensors of all files have {weights.total:,} bytes")
        metadata |= weights.files[0].metadata if weights.files else {}
        for file in weights.files:
            shown = prefix + printable(file.path.name)
            files.append(CheckpointFile(name=shown, format=file.format, tensors=len(file.tensors), bytes=file.bytes))
            imports.update(file.imports)
            notes += file.notes
    asked = [PickleImport(name=printable(".".join(what)), times=imports[what], kind=kind_of(*what)) for what in imports]
    asked.sort(key=lambda row: (row.kind, row.name))
    report = CheckpointReport(
        name=printable(name),
        path=printable(str(path)),
        torch=release,
        environment=collect_environment(),
        parameters=sum(row.parameters for row in rows),
        bytes=sum(row.bytes for row in rows),
        converted_bytes=sum(row.converted_bytes for row in rows),
        sizes={} if opaque else _sizes(rows),
        machine_bytes=memory_bytes() if sys.platform == "darwin" else None,
        dtypes=rows,
        parts=parts,
        files=files,
        missing=missing,
        others=others,
        adapter=adapter,
        imports=asked[:MOST_IMPORTS],
        metadata=metadata,
        notes=notes,
    )
    return report.model_copy(update={"advice": advice_for(report)})


def _part(component: Component, amounts: dict[tuple[str, Role, bool], _Amount]) -> CheckpointPart:
    """One component; what its tensors take is added to ``amounts``: by dtype, role, and whether they are unpacked."""
    dtypes: Counter[str] = Counter()
    parameters = 0
    quantized = component.quantized
    unpacked = quantized is not None and quantized.backend.mps in UNPACKED
    for file in component.weights.files:
        for tensor in file.tensors:
            role, values = quantized.role(tensor) if quantized else ("weights", tensor.values)
            small = BITS.get(tensor.dtype, 0) <= 8
            amount = amounts.setdefault((tensor.dtype, role, unpacked and (role != "weights" or small)), _Amount())
            amount.tensors += 1
            amount.parameters += values
            amount.bytes += tensor.bytes
            parameters += values
            dtypes[tensor.dtype] += tensor.bytes
    return CheckpointPart(
        name=printable(component.name),
        model_class=component.model_class,
        format=component.weights.format,
        parameters=parameters,
        bytes=sum(dtypes.values()),
        dtypes=dict(dtypes.most_common()),
        quantization=_quantization(quantized) if quantized else None,
    )


def _quantization(quantized: Quantized) -> Quantization:
    backend = quantized.backend
    return Quantization(
        method=quantized.method,
        bits=quantized.bits,
        mps=backend.mps,
        explanation=backend.explanation,
        read_in=backend.read_in,
        sources=list(backend.sources),
    )


def _row(name: str, role: Role, unpacked: bool, amount: _Amount, release: str, target: str) -> StoredDtype:
    judged = dtype_use(name, release) if name in BITS else None
    use: DtypeUse = judged.use if judged else "packed"
    wanted = None
    if unpacked or use == "packed":
        wanted = target
    elif use != "computed":
        wanted = NEAREST.get(name) or (target if is_float(name) else None)
    converted = amount.parameters * BITS[wanted] // 8 if wanted else amount.bytes
    return StoredDtype(
        name=name,
        role=role,
        tensors=amount.tensors,
        parameters=amount.parameters,
        bytes=amount.bytes,
        use=use,
        since=judged.since if judged else None,
        reason=judged.reason if judged else "torch has no such dtype",
        convert_to=wanted if role != "scales" else None,
        converted_bytes=0 if unpacked and role == "scales" else converted,
    )


def _sizes(rows: list[StoredDtype]) -> dict[str, int]:
    """Bytes of all weights in each dtype of floating point; what is no such weight stays as it is, scales go."""
    weights = [row for row in rows if row.role != "scales"]
    able = [row for row in weights if row.role == "packed" or row.name not in BITS or is_float(row.name)]
    rest = sum(row.bytes for row in weights if row not in able)
    count = sum(row.parameters for row in able)
    return {name: count * BITS[name] // 8 + rest for name in ("float32", "bfloat16")} if count else {}


def memory_bytes() -> int | None:
    """The memory of this machine, where the system says it (macOS, Linux)."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None
