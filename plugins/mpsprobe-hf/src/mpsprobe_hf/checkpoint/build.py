"""From files to the report: dtypes with what MPS does with them, what to convert to, and what it then takes."""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
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
    """A folder with a configuration and weights, read.

    Attributes:
        name: of the component of a pipeline; else empty.
        model_class: that the configuration names.
        weights: ``None`` where it has none.
        quantized: how, if it is.
    """

    name: str
    model_class: str | None
    weights: Weights | None
    quantized: Quantized | None = None


@dataclass(slots=True)
class _Amount:
    tensors: int = 0
    parameters: int = 0
    bytes: int = 0


@dataclass(slots=True)
class Found:
    """What was read at one place.

    Attributes:
        path: of it.
        components: one, or those of a pipeline.
        adapter: if it is one.
        notes: what to know of the reading.
    """

    path: Path
    components: list[Component]
    adapter: Adapter | None = None
    notes: list[str] = field(default_factory=list)


def judged_release(text: str | None) -> str:
    """The release that ``--torch TEXT`` means; without it the installed one, or the newest if that has no table.

    Raises:
        UnknownName: there is no such release.
        MissingPackage: torch is not installed, and was asked for.
    """
    if text is None:
        with contextlib.suppress(MpsprobeError):
            return MPS_FAMILY.resolve(installed_release())
    return MPS_FAMILY.resolve(installed_release() if text == INSTALLED else text or "latest")


def read_checkpoint(name: str, path: Path, release: str) -> CheckpointReport:
    """The report of the checkpoint at ``path``, judged for one torch release that has a table.

    Raises:
        WorkloadError: there is no checkpoint, or it is damaged.
    """
    return report_of(name, gather(path), release)


def gather(path: Path) -> Found:
    """What is at ``path``. Raises as ``read_checkpoint``."""
    if not path.is_dir():
        weights = read_file(path)
        near = path.parent / CONFIG
        config = read_json(near) if near.is_file() and weights.format == "safetensors" else {}
        quantized = of_file(weights.format) or quantization_of(config)
        count = shards_of(path.name)
        notes = [f"it is one of {count} files: give its folder to count them all"] if count > 1 else []
        return Found(path, [Component("", _class(config), weights, quantized)], notes=notes)
    names = entries(path)
    if PIPELINE in names:
        return _pipeline(path, names)
    component = _component("", path, names)
    adapter = _adapter(read_json(path / ADAPTER)) if ADAPTER in names else None
    if component.weights is None and adapter is None:
        raise _nothing(path, names)
    return Found(path, [component], adapter)


def _component(name: str, folder: Path, names: list[str]) -> Component:
    config = read_json(folder / CONFIG) if CONFIG in names else {}
    older = [read_json(folder / one) for one in OLDER if one in names and not config.get("quantization_config")]
    for one in older:  # which had no need to name their method
        one.setdefault("quant_method", "awq" if "w_bit" in one else "modelopt" if "producer" in one else "gptq")
    weights = read_weights(folder)
    quantized = (of_file(weights.format) if weights else None) or quantization_of(config, *older)
    return Component(name, _class(config), weights, quantized)


def _class(config: Mapping[str, Any]) -> str | None:
    named = config.get("architectures")
    first = named[0] if isinstance(named, list) and named else config.get("_class_name")
    if isinstance(first, str):
        return printable(first)
    return text_of(config, "model_type") or text_of(config, "architecture")  # the latter of timm


def _pipeline(folder: Path, names: list[str]) -> Found:
    """Diffusers' layout: a component is an entry of ``model_index.json`` that is a pair, and has a folder."""
    index = read_json(folder / PIPELINE)
    components, notes = [], []
    for name, value in list(index.items())[:MOST_PARTS]:
        if not (isinstance(value, list) and len(value) == 2 and all(isinstance(one, str) for one in value)):
            continue
        if name not in names or not (folder / name).is_dir():  # a name in ``names`` is no path that leads elsewhere
            notes.append(f"the component '{printable(name)}' has no folder: it may not have been downloaded")
            continue
        check_inside(folder, folder / name)
        one = _component(name, folder / name, entries(folder / name))
        if one.weights is not None:
            one.model_class = printable(value[1])
            components.append(one)
    if not components:
        raise damaged(folder, f"has a {PIPELINE}, and no component with weights", "Download the whole pipeline.")
    return Found(folder, components, notes=notes)


def _adapter(config: Mapping[str, Any]) -> Adapter:
    rank, targets = config.get("r"), config.get("target_modules")
    named = [targets] if isinstance(targets, str) else targets if isinstance(targets, list) else []
    return Adapter(
        method=text_of(config, "peft_type") or "unknown",
        base_model=text_of(config, "base_model_name_or_path"),
        rank=rank if type(rank) is int and 0 < rank < 2**31 else None,
        targets=sorted(printable(one) for one in named if isinstance(one, str))[:MOST_TARGETS],
    )


def _nothing(folder: Path, names: list[str]) -> WorkloadError:
    inside = [one for one in names if (folder / one).is_dir()][:100]
    near = [one for one in inside if any(format_of(Path(name)) or name == PIPELINE for name in _listed(folder / one))]
    if near:
        hint = "Did you mean " + " or ".join(printable(str(folder / one)) for one in near[:3]) + "?"
    else:
        hint = "A checkpoint has *.safetensors, *.gguf, or what torch.save wrote (*.bin, *.pt, *.pth, *.ckpt)."
    return damaged(folder, "holds no weights", hint)


def _listed(folder: Path) -> list[str]:
    try:
        return entries(folder)
    except WorkloadError:
        return []


def report_of(name: str, found: Found, release: str) -> CheckpointReport:
    """The report of what was read."""
    target = next(one for one in COMPUTED_IN if dtype_use(one, release).use == "computed")
    amounts: dict[tuple[str, Role, bool], _Amount] = {}
    parts = [_part(one, amounts) for one in found.components]
    rows = [_row(*key, amount, release, target) for key, amount in amounts.items()]
    rows.sort(key=lambda one: (-one.bytes, one.name, one.role))
    weights = [one.weights for one in found.components if one.weights]
    imports: Counter[tuple[str, str]] = Counter()
    for one in weights:
        for file in one.files:
            imports.update(file.imports)
    metadata: dict[str, str] = {}
    for one in weights:
        metadata |= one.files[0].metadata if one.files else {}
    quantized = [one.quantized for one in found.components if one.quantized]
    report = CheckpointReport(
        name=printable(name),
        path=printable(str(found.path)),
        torch=release,
        environment=collect_environment(),
        parameters=sum(row.parameters for row in rows),
        bytes=sum(row.bytes for row in rows),
        converted_bytes=sum(row.converted_bytes for row in rows),
        sizes=_sizes(rows) if not any(one.backend.opaque for one in quantized) else {},
        machine_bytes=memory_bytes(),
        dtypes=rows,
        parts=parts,
        files=list(_files(found)),
        missing=[f"{prefix}{printable(one)}" for prefix, w in _prefixed(found) for one in w.missing],
        others=[f"{prefix}{printable(one)}" for prefix, w in _prefixed(found) for one in w.others],
        adapter=found.adapter,
        imports=_imports(imports),
        metadata=metadata,
        notes=[*found.notes, *_opaque(quantized), *_whole(weights), *_of_files(weights)],
    )
    return report.model_copy(update={"advice": advice_for(report)})


def _part(one: Component, amounts: dict[tuple[str, Role, bool], _Amount]) -> CheckpointPart:
    """One component; what its tensors take is added to ``amounts``: by dtype, role, and whether they are unpacked."""
    dtypes: Counter[str] = Counter()
    parameters = 0
    unpacked = one.quantized is not None and one.quantized.backend.mps in UNPACKED
    for file in one.weights.files if one.weights else ():
        for tensor in file.tensors:
            role, values = one.quantized.role(tensor) if one.quantized else ("weights", tensor.values)
            small = BITS.get(tensor.dtype, 0) <= 8
            amount = amounts.setdefault((tensor.dtype, role, unpacked and (role != "weights" or small)), _Amount())
            amount.tensors += 1
            amount.parameters += values
            amount.bytes += tensor.bytes
            parameters += values
            dtypes[tensor.dtype] += tensor.bytes
    return CheckpointPart(
        name=printable(one.name),
        model_class=one.model_class,
        format=one.weights.format if one.weights else None,
        parameters=parameters,
        bytes=sum(dtypes.values()),
        dtypes=dict(dtypes.most_common()),
        quantization=_quantization(one.quantized) if one.quantized else None,
    )


def _quantization(one: Quantized) -> Quantization:
    known = one.backend
    return Quantization(
        method=one.method,
        bits=one.bits,
        mps=known.mps,  # type: ignore[arg-type]  # a word of the table; pydantic checks it
        explanation=known.explanation,
        read_in=known.read_in,
        sources=list(known.sources),
    )


def _row(name: str, role: Role, unpacked: bool, amount: _Amount, release: str, target: str) -> StoredDtype:
    known = dtype_use(name, release) if name in BITS else None
    use: DtypeUse = known.use if known else "packed"
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
        since=known.since if known else None,
        reason=known.reason if known else "torch has no such dtype",
        convert_to=wanted if role != "scales" else None,
        converted_bytes=0 if unpacked and role == "scales" else converted,
    )


def _sizes(rows: Iterable[StoredDtype]) -> dict[str, int]:
    """Bytes of all weights in each dtype of floating point; what is no such weight stays as it is, scales go."""
    weights = [row for row in rows if row.role != "scales"]
    able = [row for row in weights if row.role == "packed" or row.name not in BITS or is_float(row.name)]
    rest = sum(row.bytes for row in weights if row not in able)
    count = sum(row.parameters for row in able)
    return {name: count * BITS[name] // 8 + rest for name in ("float32", "bfloat16")} if count else {}


def _prefixed(found: Found) -> list[tuple[str, Weights]]:
    return [(f"{one.name}/" if one.name else "", one.weights) for one in found.components if one.weights]


def _files(found: Found) -> Iterable[CheckpointFile]:
    for prefix, weights in _prefixed(found):
        for file in weights.files:
            yield CheckpointFile(
                name=prefix + printable(file.path.name),
                format=file.format,  # type: ignore[arg-type]
                tensors=len(file.tensors),
                bytes=file.bytes,
            )


def _imports(found: Mapping[tuple[str, str], int]) -> list[PickleImport]:
    made = [
        PickleImport(name=printable(".".join(one)), times=count, kind=kind_of(*one)) for one, count in found.items()
    ]
    return sorted(made, key=lambda one: (one.kind, one.name))[:MOST_IMPORTS]


def _opaque(quantized: Iterable[Quantized]) -> list[str]:
    named = dict.fromkeys(one.method for one in quantized if one.backend.opaque)
    return [f"how many weights {one} packs does not follow from its tensors: elements are counted" for one in named]


def _whole(weights: Iterable[Weights]) -> list[str]:
    incomplete = [one for one in weights if one.missing and one.total]
    return [f"by its index the tensors of all files have {one.total:,} bytes" for one in incomplete]


def _of_files(weights: Iterable[Weights]) -> list[str]:
    return [note for one in weights for file in one.files for note in file.notes]


def memory_bytes() -> int | None:
    """The memory of this machine, where the system says it (macOS, Linux)."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None
