"""With which dtypes a function can return: its code is followed for every dtype at once.

One tensor, or all of them, is assumed to have a dtype that is not named: where the code loads it from the
``TensorImpl``, the value is "one number for each dtype". Comparisons, bit tests and jump tables on such a value divide
the dtypes between the two ways, and a dtype with which every way ends in a raise is one that the function refuses. Any
other condition goes both ways, so what is found is never more than what the code refuses. Tensors have elements:
kernels return early without any. Factors are not zero (``add`` copies where ``alpha`` is). Functions that are handed a
tensor, its dtype, or a block with either, are followed. A Metal kernel that is asked for by a name with the dtype in
it, and is not there, counts as a raise.

Blocks are followed until nothing more is reached, and what differs from one round of a loop to the next is not known.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mpsprobe_coverage.knowledge.kernels.kernel_facts import METAL_TYPES
from mpsprobe_tables.builder import flow_arithmetic as arithmetic
from mpsprobe_tables.builder.callgraph import STUB_CALL
from mpsprobe_tables.builder.emulator import CLOBBERED, CONDITIONAL, DECODER, SP, immediate
from mpsprobe_tables.builder.flow_memory import (
    FRAME,
    OBJECT,
    SNAPSHOT,
    Assumed,
    Frozen,
    Machine,
    Pointed,
    tells_dtype,
    tensor,
)
from mpsprobe_tables.builder.flow_values import ALL, COUNT, SCALAR_TYPES, At, Known, Point, Value, joined, where
from mpsprobe_tables.builder.macho import MachO
from mpsprobe_tables.builder.metal import KernelNames

SENTENCE = re.compile(r"[A-Za-z\"].* .*\w.*")
NAME = re.compile(r"[a-z_]\w+")
NO_MESSAGE = re.compile(r"INTERNAL ASSERT|^/|\n|Could this error message be improved")
DISPATCH = "\" not implemented for '"


DEEPEST = 12
MOST_VISITS = 6  # of a block, on average
ARGUMENTS = 17  # eight registers, where a result goes (x8), eight places on the stack
RESULT_PLACE = 8
SMALL = 256  # larger numbers that are handed over are addresses of texts, or line numbers
RAISES = re.compile(
    r"^___cxa_throw|^__Unwind_Resume|torchCheckFail|torchInternalAssertFail|error_unsupported_typemeta|^_abort$|"
    r"___stack_chk_fail|__ZSt9terminatev|___clang_call_terminate|20__throw_|__throw_"
)
OPERAND = re.compile(r"^__ZN2at6native3mps11PlaceholderC[12]EP14MPSGraphTensorRKNS_6TensorE")
NEWER_MACOS = re.compile(r"^__ZN2at3mps\d+is_macos_")
FOLLOWED = re.compile(r"2at6native|2at12_GLOBAL__N_1|2at6detail|^__ZNK?2at10TensorBase|\.cold\.|_block_invoke")
PASSED_OVER = re.compile(r"2at4meta|^__ZN2at4_ops|[CD][12]Ev$")
ASSIGNS = re.compile(r"aSE|D[012]Ev|5reset|7release|4swap")
KEEPS_DTYPE = re.compile(
    r"^__ZN2at4_ops\d+(?:contiguous|clone|expand|view|reshape|permute|transpose_int|squeeze|squeeze_dim|unsqueeze|select_int|"
    r"slice_Tensor|narrow|alias|detach|as_strided|_reshape_alias|flatten_using_ints|resolve_conj|resolve_neg|t|movedim_int|"
    r"conj|expand_as)4callE|__dispatch_contiguous|TensorBase10contiguousE|6Tensor10contiguousE"
)
BLOCK_CALL, BLOCK_FUNCTION = re.compile(r"dispatch_sync"), 16
HANDED = 6  # registers that may hold a message when a function that raises is called
LOOKUP = re.compile(r"getLibraryPipelineState|getPipelineStateForFunc|getMTLFunction|getKernelFunction")
TYPE_NAME = re.compile(r"scalarToMetalTypeString")
NO_KERNEL = "no Metal kernel"
STRUCTURED = re.compile(r"2at6native\d+structured_\w+4implE")


def sentence(texts: Sequence[str]) -> str | None:
    """The last sentence of ``texts``; the parts around a value that is written into it are parted by three dots."""
    said = [text for text in texts if SENTENCE.search(text) and not NO_MESSAGE.search(text)]
    if not said:
        return None
    before = texts[: texts.index(said[-1])]
    if said[-1] == DISPATCH:
        names = [text for text in before if NAME.fullmatch(text)]
        return f'"{names[-1]}" not implemented for' if names else None
    if said[-1].startswith(" "):
        begins = [text for text in before if text.endswith(" ")]
        return f"{begins[-1]}…{said[-1]}" if begins else None
    return said[-1].strip(" ,:")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a function does.

    Attributes:
        returns: the dtypes with which it may return. result: what it may return then, where that is one value.
        assigned: the arguments that point to something that it writes.
        made: whether it leaves a tensor of the same dtype where the result goes.
        messages: what it raises with → the dtypes with which it does.
    """

    returns: int = ALL
    result: Frozen = None
    assigned: frozenset[int] = frozenset()
    made: bool = False
    messages: tuple[tuple[str, int], ...] = ()


class Follower:
    """Follows the functions of one library.

    Args:
        dtype_at: offset of the dtype in a ``TensorImpl``; the number of elements lies eight bytes before it.
        stubs: address of a DispatchStub → the function that serves MPS.
        kernels: the Metal kernels.

    Attributes:
        assumed: what holds of the tensors beyond their dtype.
    """

    def __init__(self, library: MachO, dtype_at: int, stubs: Mapping[int, int], kernels: KernelNames) -> None:
        self.library, self.dtype_at, self.stubs, self.kernels = library, dtype_at, stubs, kernels
        self.assumed = Assumed()
        self._outcomes: dict[tuple[Assumed, int, tuple[Frozen, ...]], Outcome] = {}
        self._code: dict[int, tuple[list[tuple[int, str, str]], dict[int, int]]] = {}

    def outcome(self, address: int, arguments: tuple[Frozen, ...], depth: int = 0) -> Outcome:
        """What the function at ``address`` does with ``arguments``."""
        key = (self.assumed, address, arguments)
        known = self._outcomes.get(key)
        if known is None:
            if depth > DEEPEST:
                return Outcome()
            self._outcomes[key] = Outcome()  # what it calls may call it again
            known = self._outcomes[key] = _Run(self, address, arguments, depth).outcome()
        return known

    def code(self, address: int) -> tuple[list[tuple[int, str, str]], dict[int, int]]:
        """Its instructions, and the position of each by address."""
        known = self._code.get(address)
        if known is None:
            steps = [(at, name, text) for at, _, name, text in DECODER.disasm_lite(self.library.code(address), address)]
            known = self._code[address] = (steps, {at: index for index, (at, _, _) in enumerate(steps)})
        return known


class _Run(Machine):
    """One function with what it is handed."""

    def __init__(self, follower: Follower, address: int, arguments: tuple[Frozen, ...], depth: int) -> None:
        super().__init__(follower.library, follower.dtype_at, ARGUMENTS + 1, follower.assumed)
        self.follower, self.address, self.arguments, self.depth = follower, address, arguments, depth
        self.waiting: dict[int, Point] = {}
        self.changed: set[int] = set()
        self.here = self.end = self.returns = 0
        self.result: Value = None
        self.unmade = False
        self.messages: dict[str, int] = {}

    def outcome(self) -> Outcome:
        steps, position = self.follower.code(self.address)
        self.end = self.address + 4 * len(steps)
        self.waiting[self.address] = self._entry()
        self.changed.add(self.address)
        visits = 0
        while self.changed:
            here = min(self.changed)
            self.changed.discard(here)
            visits += 1
            if visits > MOST_VISITS * (10 + len(steps) // 8) or here not in position:
                return Outcome()
            self.point = self.waiting[here].copy(self.waiting[here].mask)
            for index in range(position[here], len(steps)):
                self.here, name, text = steps[index]
                if self.here != here and self.here in self.waiting:
                    self._leave(self.here, self.point.mask)
                    break
                if not self._step(name, text, last=index + 1 == len(steps) or steps[index + 1][1] == "brk"):
                    break
        assigned = frozenset(region - 1 for region in self.assigned if FRAME < region <= ARGUMENTS)
        result = self._frozen(self.result, {}, 0)
        return Outcome(self.returns, result, assigned, not self.unmade, tuple(sorted(self.messages.items())))

    def _entry(self) -> Point:
        point = Point(ALL, {SP: At(FRAME, 0)}, {})
        for index, argument in enumerate(self.arguments):
            value = self._thawed(argument, index + 1, point.memory)
            if index <= RESULT_PLACE:
                point.registers[index] = value
            elif value is not None:
                point.memory[FRAME, 8 * (index - RESULT_PLACE - 1)] = 8, value
        return point

    # Instructions

    def _step(self, name: str, text: str, last: bool) -> bool:
        """One instruction; whether the next one is reached from it."""
        point = self.point
        if name == "bl":
            return self._call(immediate(text), last)
        if name == "blr":
            function = self._get(text)
            if function is Known.CUSTOM and point.aside:
                return False
            if isinstance(function, int) and self.library.is_function(function):
                return self._call(function, last)
            self._clobber()
            return not last
        if name == "b":
            target = immediate(text)
            if self.address <= target < self.end:
                self._leave(target, point.mask)
            else:
                if self._call(target, last=False):
                    self._return()
            return False
        if name == "ret":
            self._return()
            return False
        if name == "br":
            self._jump(self._get(text))
            return False
        if name == "brk":
            return False
        if name.startswith("b.") or name in CONDITIONAL:
            return self._branch(name, text.split(", "))
        self._compute(name, text)
        return True

    def _branch(self, name: str, parts: list[str]) -> bool:
        target = immediate(parts[-1])
        if name.startswith("b."):
            value, test = self.point.flags, arithmetic.CONDITIONS[name[2:]]
        elif name in ("cbz", "cbnz"):
            value, test = self._get(parts[0]), operator.not_
        else:
            bit = immediate(parts[1])
            value, test = self._get(parts[0]), lambda number: not number >> bit & 1
        if isinstance(value, At):
            value = Known.POSITIVE if name in ("cbz", "cbnz") else None
        taken, passed = where(value, self.point.mask, test)
        if name in ("cbnz", "tbnz"):
            taken, passed = passed, taken
        # Tensors with sizes of their own (nested ones, those of Python) are asked aside, in functions of their table.
        self.point.aside = name == "tbnz" and value is None
        self._leave(target, taken)
        self.point.aside = name == "tbz" and value is None
        self.point.mask = passed
        return bool(passed)

    def _leave(self, target: int, mask: int) -> None:
        if not mask:
            return
        if not self.address <= target < self.end:
            self.returns |= mask
            return
        arriving = self.point.copy(mask)
        waiting = self.waiting.get(target)
        if waiting is None:
            self.waiting[target] = arriving
            self.changed.add(target)
        elif waiting.join(arriving):
            self.changed.add(target)

    def _jump(self, value: Value) -> None:
        mask = self.point.mask
        if isinstance(value, int):
            self._leave(value, mask)
        elif isinstance(value, tuple):
            for target in {v for d, v in enumerate(value) if mask >> d & 1}:
                dtypes = sum(1 << d for d, v in enumerate(value) if mask >> d & 1 and v == target)
                if target is None:
                    self.returns |= dtypes
                else:
                    self._leave(target, dtypes)
        else:
            self.returns |= mask
            self.result, self.unmade = None, True

    def _return(self) -> None:
        point = self.point
        self.result = joined(self.result, self.returns, point.registers.get(0), point.mask)
        self.unmade |= point.memory.get((RESULT_PLACE + 1, 0), (0, None))[1] is not Known.TENSOR
        self.returns |= point.mask

    def _call(self, target: int, last: bool) -> bool:
        library, point = self.library, self.point
        symbol = library.symbol_at(target) or ""
        if RAISES.search(symbol):
            self._raise(point.mask)
            return False
        if self.assumed.metal_only and OPERAND.search(symbol):
            return False
        if self.assumed.metal_only and NEWER_MACOS.search(symbol):
            self._clobber()
            point.registers[0] = 1
            return not last
        values = [point.registers.get(index) for index in range(RESULT_PLACE + 1)]
        if ".cold." in symbol:  # what the compiler moved out of a function gets what it needs as arguments
            values[RESULT_PLACE] = None
        top = point.registers.get(SP)
        if isinstance(top, At):
            places = range(top.offset, top.offset + 8 * (ARGUMENTS - RESULT_PLACE - 1), 8)
            values += [point.memory.get((top.region, place), (0, None))[1] for place in places]
        length = OBJECT
        if STUB_CALL.search(symbol):
            place = values[0]
            self._clobber()
            point.registers[0] = self.follower.stubs.get(place) if isinstance(place, int) else None
            return not last
        if BLOCK_CALL.search(symbol):
            length = SNAPSHOT
            target = self._block(values[1])
            symbol, values = library.symbol_at(target) or "", values[1:2]
        arguments = tuple(map(_telling, (self._frozen(value, point.memory, length) for value in values)))
        if self.assumed.same and STRUCTURED.search(symbol):
            arguments = tuple(tensor() if argument == Pointed() else argument for argument in arguments)
        if TYPE_NAME.search(symbol):
            point.named = tells_dtype(arguments[0])
        elif LOOKUP.search(symbol):
            self._look_up()
            if not point.mask:
                return False
        result: Value = None
        if ".cold." in symbol or (library.is_function(target) and self._is_followed(symbol, arguments)):
            outcome = self.follower.outcome(target, arguments, self.depth + 1)
            for text, mask in outcome.messages:
                self.messages[text] = self.messages.get(text, 0) | (mask & point.mask)
            point.mask &= outcome.returns
            if not point.mask:
                return False
            result = None if isinstance(outcome.result, Pointed) else outcome.result
            assigned, made = outcome.assigned, outcome.made
        else:
            assigned = frozenset({0}) if ASSIGNS.search(symbol) else frozenset()
            made = (
                KEEPS_DTYPE.search(symbol) is not None and isinstance(arguments[0], Pointed) and arguments[0].is_tensor
            )
        place = values[RESULT_PLACE] if len(values) > RESULT_PLACE else None
        self._written([values[index] for index in assigned if index < len(values)], values, place)
        self._clobber()
        if made and isinstance(place, At):
            point.memory[place.region, place.offset] = 8, Known.TENSOR
        if isinstance(result, (int, tuple, Known)):
            point.registers[0] = result
        return not last

    def _look_up(self) -> None:
        """A Metal kernel is asked for: go on with the dtypes that it is there for."""
        kernels, point = self.follower.kernels, self.point
        patterns = [text if "{}" in text else f"{text}{{}}" for text in point.texts]
        fitting = [pattern for pattern in patterns if kernels.fits(pattern)]
        types = kernels.types(fitting[-1]) if fitting and point.named else frozenset()
        point.named = False  # the next name may have another type in it, or none
        if not types:
            return
        there = {METAL_TYPES[name] for name in types}
        named = set(METAL_TYPES.values()) - there
        missing = sum(1 << d for d, dtype in SCALAR_TYPES.items() if dtype in named and point.mask >> d & 1)
        text = f"{NO_KERNEL} '{fitting[-1]}'"
        self.messages[text] = self.messages.get(text, 0) | missing
        point.mask &= ~missing

    def _written(self, assigned: list[Value], values: list[Value], result: Value) -> None:
        """Numbers in memory that a function is handed may change; a tensor stays what it is, unless it is assigned."""
        memory = self.point.memory
        for value in values:
            if isinstance(value, At):
                for place in [
                    p for p, (_, v) in memory.items() if p[0] == value.region and isinstance(v, (int, tuple))
                ]:
                    if value.offset <= place[1] < value.offset + SNAPSHOT:
                        del memory[place]
        for value in (*assigned, result):
            if isinstance(value, At):
                self.assigned.add(value.region)
                for offset in range(value.offset, value.offset + 24, 8):
                    memory.pop((value.region, offset), None)

    def _is_followed(self, symbol: str, arguments: tuple[Frozen, ...]) -> bool:
        if not FOLLOWED.search(symbol) or PASSED_OVER.search(symbol):
            return False
        return any(map(tells_dtype, arguments))

    def _block(self, value: Value) -> int:
        if isinstance(value, At):
            function = self.point.memory.get((value.region, value.offset + BLOCK_FUNCTION), (0, None))[1]
            if isinstance(function, int):
                return function
        return 0

    def _raise(self, mask: int) -> None:
        """Keep with which sentence; where ways meet before, the register with its address depends on the dtype."""
        library = self.library
        for number in range(COUNT):
            if mask >> number & 1:
                handed = [self.point.registers.get(register) for register in range(HANDED)]
                places = [value[number] if isinstance(value, tuple) else value for value in handed]
                texts = [library.string_at(place) for place in places if isinstance(place, int)]
                said = sentence([*self.point.texts, *(text for text in texts if text)])
                if said is not None:
                    self.messages[said] = self.messages.get(said, 0) | 1 << number

    def _clobber(self) -> None:
        self.point.aside = False
        for register in CLOBBERED:
            self.point.registers.pop(register, None)
        self.point.flags = None


def _telling(value: Frozen) -> Frozen:
    """What a function that is followed needs of an argument: functions are followed once for each way to call them."""
    if isinstance(value, int):
        return value if value < SMALL else None
    if isinstance(value, Pointed) and not value.tells_dtype:
        return value if value == tensor(Known.OTHER) else Pointed()
    return value
