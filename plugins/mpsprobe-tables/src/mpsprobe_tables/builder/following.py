"""The registered kernels of a library for ``flow``: where their tensors are, and where in a tensor its dtype lies."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import capstone

from mpsprobe_tables.builder.arguments import Parameter, parameters, read_schemas
from mpsprobe_tables.builder.flow import ARGUMENTS, RESULT_PLACE, Follower
from mpsprobe_tables.builder.flow_memory import Frozen, Pointed, tensor
from mpsprobe_tables.builder.flow_values import Known
from mpsprobe_tables.builder.macho import MachO
from mpsprobe_tables.builder.metal import KernelNames
from mpsprobe_tables.builder.stubs import CLEAR_MAJORITY, Stubs

DTYPE_LOAD = re.compile(r"\bldrh w(\d+), \[x\d+, #(?P<offset>0x\w+)\]\ncmp [wx]\1, #0x[12]\w\nb\.h[si] ")
_decoder = capstone.Cs(capstone.CS_ARCH_ARM64, capstone.CS_MODE_ARM)
_decoder.skipdata = True


@dataclass(frozen=True, slots=True)
class Kernel:
    """A registered function.

    Attributes:
        address: of the function.
        tensors: its arguments that are a tensor, or may be one, as far as it is known where they are.
        scales: it has a number that is 1 where a call does not say it: a factor (``alpha``), which nobody sets to 0.
    """

    operator: str
    address: int
    tensors: tuple[Parameter, ...]
    scales: bool

    @property
    def inputs(self) -> tuple[Parameter, ...]:
        """Without those that the result is written to."""
        return tuple(p for p in self.tensors if not p.is_out)

    @property
    def certain(self) -> tuple[Parameter, ...]:
        """The inputs that every call has."""
        return tuple(p for p in self.inputs if p.kind == "Tensor")

    @property
    def outs(self) -> tuple[Parameter, ...]:
        """Those that the result is written to."""
        return tuple(p for p in self.tensors if p.is_out)

    def handed(self, followed: Collection[Parameter]) -> tuple[Frozen, ...]:
        """What it is handed when those of ``followed`` are tensors that are followed, and others are not known."""
        handed: list[Frozen] = [None] * ARGUMENTS
        handed[RESULT_PLACE] = Pointed()
        for parameter in self.tensors:
            if parameter.place is not None and parameter.place < ARGUMENTS:
                if parameter in followed:
                    handed[parameter.place] = tensor()
                elif parameter.kind == "Tensor":
                    handed[parameter.place] = tensor(Known.OTHER)
        return tuple(handed)


def kernels_of(library: MachO, registered: Mapping[str, int]) -> Iterator[Kernel]:
    """The kernels of those operators of ``registered`` (operator → function) whose schema the library has."""
    schemas = read_schemas(library, registered.keys())
    for operator, address in sorted(registered.items()):
        schema = schemas.get(operator)
        if schema is not None:
            known = parameters(schema, library.symbol_at(address) or "")
            tensors = (p for p in known if p.place is not None and p.kind in ("Tensor", "Optional[Tensor]"))
            scales = any(str(a.real_type) == "number" and a.default_value == 1 for a in schema.arguments)
            yield Kernel(operator, address, tuple(tensors), scales)


def follower_of(library: MachO, stubs: Stubs, names: KernelNames) -> Follower | None:
    """What follows the functions of ``library``; None where it is not known where the dtype of a tensor lies."""
    dtype_at = offset_of_dtype(library)
    set_stubs = {address: stubs.kernels[name] for address, name in stubs.names.items() if name in stubs.kernels}
    return None if dtype_at is None else Follower(library, dtype_at, set_stubs, names)


def offset_of_dtype(library: MachO) -> int | None:
    """Where the dtype lies in a ``TensorImpl``: what MPS code loads and compares with the number of dtypes."""
    found: Counter[int] = Counter()
    for _, address in library.functions_named("2at6native3mps"):
        code = "\n".join(f"{name} {text}" for _, _, name, text in _decoder.disasm_lite(library.code(address), address))
        found.update(int(match["offset"], 0) for match in DTYPE_LOAD.finditer(code))
    if not found:
        return None
    offset, count = found.most_common(1)[0]
    return offset if count >= CLEAR_MAJORITY * found.total() else None
