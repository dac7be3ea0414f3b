"""Which DispatchStubs have a kernel for MPS, read from the static initialisers.

Operators that go through a TensorIterator call an object ``at::native::<name>_stub`` that holds one function pointer
for each device type (aten/src/ATen/native/DispatchStub.h). ``REGISTER_MPS_DISPATCH`` becomes a store into that object
in the initialiser ``__GLOBAL__sub_I_<File>.mm``; where nothing stores, the operator raises "DispatchStub: missing
kernel for mps". Where in the object the pointer of MPS lies is read from the Objective-C++ files, which register
nothing else.
"""

from __future__ import annotations

import bisect
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from mpsprobe_tables.builder.emulator import Store, run
from mpsprobe_tables.builder.macho import MachO

OBJECT = re.compile(r"__ZN2at6native(?P<digits>\d+)(?P<name>[A-Za-z_]\w*)E$")
# Every stub has a type of its own, and for each type there is a variable with the kernel for the CPU.
DEFAULT = re.compile(r"12DispatchStubI.*?NS0_\d+(?P<name>[A-Za-z_]\w*?)(?:_DECLARE_DISPATCH_type)?EE7DEFAULTE$")
LARGEST_OBJECT = 256  # bytes; a stub of 2.15.0 has 64
CLEAR_MAJORITY = 0.9


@dataclass(frozen=True, slots=True)
class Stubs:
    """The stubs of one library."""

    names: Mapping[int, str] = field(default_factory=dict)  # address of the object → its name, ``silu_stub``
    # Name → address of the function that serves MPS, for those that have one.
    kernels: Mapping[str, int] = field(default_factory=dict)
    # Bytes from the object to that pointer; None when nothing shows it, then nothing is known of kernels.
    offset: int | None = None


def read_stubs(library: MachO) -> Stubs:
    """The stubs of ``library`` and their MPS kernels."""
    objects = library.objects_named("2at6native")
    declared = {match["name"] for match in map(DEFAULT.search, objects.values()) if match is not None}
    names = {}
    for address, symbol in objects.items():
        match = OBJECT.match(symbol)
        if match is not None and len(match["name"]) == int(match["digits"]) and match["name"] in declared:
            names[address] = match["name"]
    stored = list(_stored(library, names))
    offsets = Counter(offset for file, _, offset, _ in stored if file.endswith(".mm"))
    if not offsets:
        return Stubs(names)
    offset, count = offsets.most_common(1)[0]
    if count < CLEAR_MAJORITY * offsets.total():
        return Stubs(names)
    return Stubs(names, {names[base]: value for _, base, at, value in stored if at == offset}, offset)


def _stored(library: MachO, names: Mapping[int, str]) -> Iterator[tuple[str, int, int, int]]:
    """Function pointers stored into stubs: source file, address of the stub, offset in it, function."""
    starts = sorted(names)
    for symbol, address in library.functions_named("_GLOBAL__sub_I_"):
        for event in run(library, address):
            if not isinstance(event, Store):
                continue
            index = bisect.bisect_right(starts, event.address) - 1
            if index < 0 or not library.is_function(event.value):
                continue
            offset = event.address - starts[index]
            if offset < LARGEST_OBJECT:
                yield symbol, starts[index], offset, event.value
