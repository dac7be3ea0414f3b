"""How the kernel of an operator computes: which stubs, Metal kernels and other operators its code can reach.

From the function that an operator registers, calls and function pointers are followed inside ``at::native`` (blocks of
Objective-C and lambdas among them), and through a stub to its MPS kernel. What a function is called with is read by
``emulator``. The dispatcher is not followed: what it is asked for are other operators with verdicts of their own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from mpsprobe_tables.builder.emulator import ARGUMENTS, Call, Incoming, Made, Value, run
from mpsprobe_tables.builder.macho import MachO
from mpsprobe_tables.builder.stubs import Stubs

DEEPEST = 24  # calls; the deepest chain of 2.15.0 has 14
MOST_FUNCTIONS = 600  # of one operator
LONGEST_PATTERN = 200
# Functions of at::native and at::(anonymous namespace), their blocks and lambdas; what wraps a kernel.
INSIDE = re.compile(r"^_+ZZ?N[KS]*2at(6native|12_GLOBAL__N_1|L)|^_+ZN[KS]*2atL|wrap_kernel_functor_unboxed")
BLOCK = "block_invoke"
# Shape functions, exception handling, constructors and destructors compute nothing.
OUTSIDE = re.compile(r"2at4meta|\.cold\.|[CD][012]E[RPvONS]")
ELEMENTWISE = re.compile(r"MetalShaderLibrary\d+exec_(?P<kind>unary|binary|ternary)_kernel(?:_with_params)?[EI]")
LOOKUP = re.compile(r"getLibraryPipelineState|getPipelineStateForFunc|getMTLFunction|KernelFunction|exec_\w+_kernel")
GRAPH = re.compile(r"runMPSGraph|LookUpOrCreateCachedGraph|MPSGraphCache")
OPERATOR_CALL = re.compile(r"^__ZN2at4_ops\d+(?P<name>\w+?)(?:4call|10redispatch)E")
# Operators that only make tensors or look at them in another way: they compute nothing, for any dtype.
HARMLESS = re.compile(
    r"(empty|empty_like|empty_strided|new_empty|resize|resize_as|as_strided|alias|view(?!_dtype|_as_)|view_as(?!_)|expand|"
    r"expand_as|reshape|permute|transpose|unsqueeze|squeeze|select|slice|narrow|movedim|flatten|detach|is_same_size|"
    r"result_type)_?(_.*)?$"
)
STUB_CALL = re.compile(r"16DispatchStubImpl(?:12get_call_ptr|16try_get_call_ptr)E")
FORMAT = re.compile(r"^__ZN3fmt")  # format functions take the pattern as address and length, first or second
CONCATENATION = re.compile(r"12basic_stringI.*6insertEmPKc")  # std::string::insert(0, "prefix_")
PART = re.compile(r"\w{1,60}", re.ASCII)
NAME_ARGUMENT = 2  # exec_unary_kernel(this, iterator, name, …)

Handed = tuple[tuple[int, str | Incoming], ...]
"""Number of an argument → the text that is handed over in it, or the argument of the caller that is passed on."""
_Visit = tuple[int, tuple[tuple[int, str], ...]]
"""A function, by its address, and the texts that it is handed."""


@dataclass(slots=True)
class Reach:
    """What can be reached."""

    stubs: set[str | None] = field(default_factory=set)  # names of the stubs; None for one that is not known
    # Kind and operation of the Metal kernels that compute by element; None for a name not known.
    elementwise: set[tuple[str, str | None]] = field(default_factory=set)
    # Of the names of other Metal kernels, ``{}`` standing for any text; None for one that is not known.
    patterns: set[str | None] = field(default_factory=set)
    # Other operators that are called (``mul_out``); not those that the outermost function calls.
    operators: set[str] = field(default_factory=set)
    graph: bool = False  # whether an MPSGraph is run
    complete: bool = True  # whether everything was followed


@dataclass(slots=True)
class _Function:
    """What one function does itself, whoever calls it.

    Attributes:
        elementwise: as in ``Reach``, but a name may be that in an argument.
        follows: what it calls or makes the address of, and the texts, or own arguments, that it hands over.
        lookups: how many Metal kernels of another kind it asks for. texts: patterns that may be their names.
        constants: whole names among its constants; one that is chosen among several is not seen where it is asked for.
    """

    reach: Reach = field(default_factory=Reach)
    elementwise: set[tuple[str, str | Incoming | None]] = field(default_factory=set)
    follows: list[tuple[int, Handed]] = field(default_factory=list)
    lookups: int = 0
    texts: set[str] = field(default_factory=set)
    constants: set[str] = field(default_factory=set)


class CallGraph:
    """The calls of one library; functions are read once, when they are first met.

    Args:
        names_a_kernel: whether a pattern fits the name of a Metal kernel.
    """

    def __init__(self, library: MachO, stubs: Stubs, names_a_kernel: Callable[[str], bool]) -> None:
        self._library = library
        self._stubs = stubs
        self._names_a_kernel = names_a_kernel
        self._functions: dict[int, _Function] = {}

    def reach(self, address: int) -> Reach:
        """What the registered function at ``address`` reaches."""
        found = Reach()
        first: _Visit = (address, ())
        callers = {first: first}
        level = [first]
        for depth in range(DEEPEST + 1):
            following: list[_Visit] = []
            for visit in level:
                function = self._function(visit[0])
                self._merge(found, function, visit, outermost=depth == 0 or self._is_wrapper(visit[0]))
                found.patterns |= self._patterns(visit, callers[visit])
                for target in self._targets(function, visit):
                    if target not in callers:
                        callers[target] = visit
                        following.append(target)
            level = following
            if not level or len(callers) > MOST_FUNCTIONS:
                break
        found.complete = not level
        return found

    def _targets(self, function: _Function, visit: _Visit) -> Iterator[_Visit]:
        texts = dict(visit[1])
        for target, handed in function.follows:
            known = {i: texts.get(v.index) if isinstance(v, Incoming) else v for i, v in handed}
            yield target, tuple((index, text) for index, text in known.items() if text is not None)
        for name, address in self._stubs.kernels.items():
            if name in function.reach.stubs:
                yield address, ()

    @staticmethod
    def _merge(into: Reach, function: _Function, visit: _Visit, outermost: bool) -> None:
        texts = dict(visit[1])
        into.stubs |= function.reach.stubs
        into.graph |= function.reach.graph
        if not outermost:
            into.operators |= function.reach.operators
        for kind, name in function.elementwise:
            into.elementwise.add((kind, texts.get(name.index) if isinstance(name, Incoming) else name))

    def _patterns(self, visit: _Visit, caller: _Visit) -> set[str | None]:
        """Names of the Metal kernels that a function asks for; a block may be handed them by the function around it."""
        function = self._function(visit[0])
        if not function.lookups:
            return set()
        texts, handed = function.texts, visit[1]
        if BLOCK in (self._library.symbol_at(visit[0]) or ""):
            handed = (*handed, *caller[1])
            if len(texts) < function.lookups:
                texts = texts | self._function(caller[0]).texts
        if len(texts) == function.lookups - 1 and function.constants - texts:
            texts = texts | function.constants
        if len(texts) < function.lookups:
            return {None}
        return {pattern for text in texts for pattern in self._narrowed(text, [known for _, known in handed])}

    def _narrowed(self, pattern: str, handed: Sequence[str]) -> Iterator[str]:
        """``upsample_{}_{}`` in a function that is handed ``bicubic2d`` is ``upsample_bicubic2d_{}``."""
        narrower = [pattern.replace("{}", text, 1) for text in handed if "{}" in pattern]
        fitting = [text for text in narrower if self._names_a_kernel(text)]
        yield from fitting or [pattern]

    def _is_wrapper(self, address: int) -> bool:
        """Generated code around a kernel: it copies a result into ``out`` when that has another layout."""
        symbol = self._library.symbol_at(address) or ""
        return re.search(r"\d+wrapper_|wrap_kernel_functor_unboxed", symbol) is not None

    def _function(self, address: int) -> _Function:
        function = self._functions.get(address)
        if function is None:
            function = self._functions[address] = self._read(address)
        return function

    def _read(self, address: int) -> _Function:
        function = _Function()
        library = self._library
        if not library.is_function(address):
            return function
        for event in run(library, address):
            if isinstance(event, Made):
                symbol = library.symbol_at(event.address)
                text = library.string_at(event.address) if symbol is None else None
                if text is not None and PART.fullmatch(text) and self._names_a_kernel(text):
                    function.constants.add(text)
                if symbol is not None and self._follows(symbol, event.address):
                    function.follows.append((event.address, ()))
            elif isinstance(event, Call):
                self._call(event, function)
        return function

    def _call(self, call: Call, function: _Function) -> None:
        symbol = self._library.symbol_at(call.target)
        if symbol is None:
            return
        reach = function.reach
        if STUB_CALL.search(symbol):
            reach.stubs |= self._stubs_at(call.argument(0))
            return
        elementwise = ELEMENTWISE.search(symbol)
        if elementwise is not None:
            name = call.argument(NAME_ARGUMENT)
            known = name if isinstance(name, Incoming) else call.state.string(name)
            function.elementwise.add((elementwise["kind"], known))
            return
        operator = OPERATOR_CALL.match(symbol)
        if operator is not None:
            reach.operators.add(operator["name"])
        elif GRAPH.search(symbol):
            reach.graph = True
        elif LOOKUP.search(symbol):
            function.lookups += 1
            self._text(call.state.string(call.argument(2 if "getLibrary" in symbol else 1)), function)
        elif FORMAT.match(symbol):
            for first in (0, 1):
                self._text(self._constant_text(call.argument(first), call.argument(first + 1)), function)
        elif CONCATENATION.search(symbol):
            prefix = self._handed_text(call, 2)
            self._text(f"{prefix}{{}}" if isinstance(prefix, str) else None, function)
        elif self._follows(symbol, call.target):
            handed = ((index, self._handed_text(call, index)) for index in range(ARGUMENTS))
            function.follows.append((call.target, tuple((index, text) for index, text in handed if text is not None)))

    def _handed_text(self, call: Call, index: int) -> str | Incoming | None:
        """A string, or C string, in an argument, if it may be a part of a kernel's name."""
        value = call.argument(index)
        if isinstance(value, Incoming):
            return value
        text = self._library.string_at(value) if isinstance(value, int) else call.state.string(value)
        return text if text is not None and PART.fullmatch(text) else None

    def _stubs_at(self, this: Value) -> set[str | None]:
        places = this if isinstance(this, frozenset) else {this}
        return {self._stubs.names.get(place) if isinstance(place, int) else None for place in places}

    def _constant_text(self, start: Value, length: Value) -> str | None:
        if not isinstance(start, int) or not isinstance(length, int) or not 0 < length <= LONGEST_PATTERN:
            return None
        content = self._library.constant(start, length)
        return None if content is None else content.decode("utf-8", "replace")

    def _text(self, text: str | None, function: _Function) -> None:
        if text and self._names_a_kernel(text):
            function.texts.add(text)

    def _follows(self, symbol: str, address: int) -> bool:
        if not INSIDE.search(symbol) and BLOCK not in symbol:
            return False
        return not OUTSIDE.search(symbol) and self._library.is_function(address)
