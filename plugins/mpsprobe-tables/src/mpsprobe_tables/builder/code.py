"""What the kernel of each operator does, as a digest that is the same in two releases whose code says the same.

Compilers choose other registers and another order from release to release, and what a header brings in changes with
it. So the digest is not of instructions but of what they name: the selectors that are sent, the texts (among them the
sources of Metal kernels), the operators that are called, the stubs, and the Metal kernels with the size that each was
compiled to. It is a set: how often something is named depends on what the compiler inlined.

Left out are functions that hundreds of kernels share (``SHARED``), texts that code outside of MPS kernels has too,
which are those of headers, and ``PLUMBING``.
"""

from __future__ import annotations

import hashlib
import re
import struct
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from mpsprobe_tables.builder.callgraph import BLOCK, INSIDE, OPERATOR_CALL, OUTSIDE, Reach
from mpsprobe_tables.builder.macho import MachO
from mpsprobe_tables.builder.messages import made_strings
from mpsprobe_tables.builder.metal import elementwise, kernel_sizes
from mpsprobe_tables.builder.stubs import Stubs

# In some release more than a fifth of all kernels reach each of these; none of them computes.
SHARED = re.compile(
    r"MPS(Graph|Kernel)Cache|LookUpOrCreate|make_mps_graph|runMPSGraph|[gs]etMPS|castMPSTensor|[pP]laceHolder|"
    r"getTensorsStringKey|getArrayRefString|MetalShaderLibrary\d+(get|compile|has)[A-Z]|scalarToMetalTypeString|"
    r"mtl_(set|dispatch)|bind_?[iI]\w+er|DispatchStubImpl|compute_cpu_capability|needsGather|dispatch_sync|\d+empty_mps|"
    r"resize_|fill_empty|fill_resize|canUse32BitIndexMath|updateTensorBaseShape|is_macos"
)
# How operands become arrays of MPSGraph: of these functions count the selectors, for every kernel that calls one.
OPERANDS = re.compile(r"11PlaceholderC|mps\d+get\w*MPSNDArray")
# Names that compilers and helpers which are inlined decide on: objects, texts, encoding, names of files, new tensors.
PLUMBING = re.compile(
    r"selector (new|init|alloc|release|retain|autorelease|device)$|"
    r"selector (description|localizedDescription|UTF8String|stringWithUTF8String|dispatchThread|maxTotalThreads|"
    r"set(LanguageVersion|Bytes|Buffer|ComputePipelineState)|threadExecutionWidth|newFunctionWithName|newLibraryWith|"
    r"newComputePipeline)|operator _?(empty|resize|new_empty)|"
    r"text (/|.*INTERNAL ASSERT|Failed to (construct|compile|load|create)|getPipelineState|(kernel )?cache queue)"
)
BOXES = re.compile(
    r"selector (number|array|dictionary|string)With|selector (object|setObject|countByEnum|copy$|count$)"
)
SOURCE = 200  # characters from which on a text is the source of Metal kernels
LAMBDA = "__function6__func"  # std::function: its table of virtual functions stands for the lambda in it
SENT = "_objc_msgSend$"
ADDRESS = (1 << 36) - 1  # of a pointer that dyld fixes up
DIGITS = 6


@dataclass(slots=True)
class _Function:
    names: set[str] = field(default_factory=set)
    follows: list[int] = field(default_factory=list)


def read_code(
    library: MachO, registered: Mapping[str, int], stubs: Stubs, reaches: Mapping[str, Reach]
) -> dict[str, str]:
    """Operator → the digest. Raises TableError: the library is corrupted."""
    code = _Code(library, stubs)
    walked = {operator: code.walk(function) for operator, function in registered.items()}
    met = frozenset().union(*walked.values())
    starts = library.starts
    elsewhere = {
        f"text {text}"
        for place, text in made_strings(library)
        if len(text) < SOURCE and starts[bisect_right(starts, place) - 1] not in met
    }
    sizes = kernel_sizes(library)
    metal = _Metal(sizes)
    digests = {}
    for operator, functions in walked.items():
        names = set().union(*(code.function(one).names for one in functions)) - elsewhere
        reach = reaches[operator]
        names |= {f"metal {name} {sizes[name]}" for name in metal.of(reach)}
        digests[operator] = hashlib.sha256("\n".join(sorted(names)).encode()).hexdigest()[:DIGITS]
    return digests


class _Metal:
    def __init__(self, names: Iterable[str]) -> None:
        self._names = sorted(names)
        self._by_element = elementwise(self._names)
        self._known: dict[str, list[str]] = {}

    def of(self, reach: Reach) -> Iterator[str]:
        """The Metal kernels that can be meant."""
        for _, operation in reach.elementwise:
            yield from self._by_element.get(operation or "", ())
        for pattern in reach.patterns:
            if pattern is not None and pattern not in self._known:
                named = re.compile(r"\w*".join(re.escape(part) for part in pattern.split("{}")))
                self._known[pattern] = [name for name in self._names if named.fullmatch(name)]
            yield from self._known.get(pattern or "", ())


class _Code:
    """The functions of one library, each read once: from top to bottom, with the addresses that its code makes."""

    def __init__(self, library: MachO, stubs: Stubs) -> None:
        self._library, self._stubs = library, stubs
        self._objects = library.objects_named("")
        self._texts = dict(library.strings())
        self._selectors: dict[int, str] = {}
        names: dict[int, str] = {}
        for start, content in library.sections("__TEXT", "__objc_methname"):
            for name in content.split(b"\0"):
                names[start] = name.decode("utf-8", "replace")
                start += len(name) + 1
        for start, content in library.sections("__DATA", "__objc_selrefs"):
            for at in range(0, len(content) - 7, 8):
                pointer = struct.unpack_from("<Q", content, at)[0] & ADDRESS
                self._selectors[start + at] = names.get(pointer, "")
        for segment in ("__DATA", "__DATA_CONST"):
            for start, content in library.sections(segment, "__cfstring"):
                for at in range(0, len(content) - 31, 32):
                    pointer = struct.unpack_from("<Q", content, at + 16)[0] & ADDRESS
                    self._texts[start + at] = self._texts.get(pointer, "")
        self._lambdas = sorted(library.functions_named(LAMBDA))
        self._functions: dict[int, _Function] = {}
        self._sources: dict[int, set[str]] = {}  # global object → the sources in the initialiser of its file
        for symbol, address in library.functions_named("_GLOBAL__sub_I_"):
            if symbol.endswith(".mm"):
                made = list(self._made(address))
                sources = {f"text {self._texts[at]}" for at, _ in made if len(self._texts.get(at, "")) >= SOURCE}
                for at, _ in made if sources else ():
                    if at in self._objects:
                        self._sources.setdefault(at, set()).update(sources)

    def walk(self, address: int) -> frozenset[int]:
        """The function at ``address``, and those that are its own."""
        met, waiting = {address}, [address]
        while waiting:
            following = {*self.function(waiting.pop()).follows} - met
            met |= following
            waiting += following
        return frozenset(met)

    def function(self, address: int) -> _Function:
        function = self._functions.get(address)
        if function is None:
            function = self._functions[address] = _Function()
            for target, called in self._made(address):
                self._add(target, called, function)
            function.names = {name for name in function.names if not PLUMBING.match(name)}
            if OPERANDS.search(self._symbol(address)):
                function.names = {n for n in function.names if n.startswith("selector ") and not BOXES.match(n)}
                function.follows = [one for one in function.follows if OPERANDS.search(self._symbol(one))]
        return function

    def _symbol(self, address: int) -> str:
        return self._library.symbol_at(address) or ""

    def _add(self, target: int, called: bool, function: _Function) -> None:
        library, names = self._library, function.names
        symbol = library.symbol_at(target)
        if symbol is not None:
            operator = OPERATOR_CALL.match(symbol)
            if operator is not None:
                names.add(f"operator {operator['name']}")
            elif self._is_own(symbol) and library.is_function(target):
                function.follows.append(target)
        elif target in self._texts:
            names.add(f"text {self._texts[target]}")
        elif target in self._selectors:
            names.add(f"selector {self._selectors[target]}")
        elif target in self._stubs.names:
            stub = self._stubs.names[target]
            names.add(f"stub {stub}")
            if stub in self._stubs.kernels:
                function.follows.append(self._stubs.kernels[stub])
        elif called:
            names.add(f"selector {self._objects.get(target, '').removeprefix(SENT)}")
        else:
            names |= self._sources.get(target, set())
            table = self._objects.get(target - 16, "")  # an object points behind two words of its table
            if table.startswith("__ZTV") and LAMBDA in table:
                called_as = f"__Z{table[5:-1]}cl"
                at = bisect_left(self._lambdas, (called_as, 0))
                if at < len(self._lambdas) and self._lambdas[at][0].startswith(called_as):
                    function.follows.append(self._lambdas[at][1])

    @staticmethod
    def _is_own(symbol: str) -> bool:
        if OPERANDS.search(symbol):
            return True
        inside = INSIDE.search(symbol) is not None or BLOCK in symbol
        return inside and not OUTSIDE.search(symbol) and not SHARED.search(symbol)

    def _made(self, address: int) -> Iterator[tuple[int, bool]]:
        """Each address that the function calls (True), makes or loads from (False).

        The linker turns ``adrp``, ``add`` and a load into fewer instructions where addresses allow it.
        """
        code = self._library.code(address)
        pages: dict[int, int] = {}
        for here, (word,) in zip(range(address, address + len(code), 4), struct.iter_unpack("<I", code), strict=False):
            target, base = word & 31, pages.get(word >> 5 & 31)
            if word & 0x7C000000 == 0x14000000:  # bl, b
                if word >> 31:
                    pages = {register: page for register, page in pages.items() if register > 17}
                place = here + 4 * _signed(word & 0x3FFFFFF, 26)
                if word >> 31 or not address <= place < address + len(code):
                    yield place, True
                continue
            if word & 0xFC000000 == 0x54000000 or word & 0x7C000000 == 0x34000000:  # b.cond; cbz, cbnz, tbz, tbnz
                continue
            made = None
            if word & 0x1F000000 == 0x10000000:  # adrp, adr
                offset = _signed((word >> 5 & 0x7FFFF) << 2 | word >> 29 & 3, 21)
                pages[target] = (here & ~0xFFF) + (offset << 12) if word >> 31 else here + offset
                if not word >> 31:
                    yield pages[target], False
                continue
            if word & 0xFFC00000 == 0x91000000 and base is not None:  # add
                made = pages[target] = base + (word >> 10 & 0xFFF)
                yield made, False
                continue
            vector = word >> 26 & 1
            if word & 0x3B000000 == 0x18000000:  # a load from a place near the code
                made = here + 4 * _signed(word >> 5 & 0x7FFFF, 19)
            elif word & 0x3B000000 == 0x39000000 and word >> 22 & 3 and base is not None:  # a load from a page
                made = base + ((word >> 10 & 0xFFF) << (4 if vector and word >> 23 & 1 else word >> 30))
            if made is not None:
                yield made, False
            if not vector:
                pages.pop(target, None)
            if word & 0x3E400000 == 0x28400000:  # ldp
                pages.pop(word >> 10 & 31, None)


def _signed(number: int, bits: int) -> int:
    return number - (1 << bits) if number >> bits - 1 else number
