"""How the kernel of an operator computes: which stubs, Metal kernels and other operators its code can reach.

From the function that an operator registers, calls and function pointers are followed inside ``at::native`` (blocks of
Objective-C and lambdas among them), and through a stub to its MPS kernel. What a function is called with is read by
``emulator``. The dispatcher is not followed: what it is asked for are other operators with verdicts of their own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from mpsprobe_coverage.kernels.builder.emulator import Call, Made, run
from mpsprobe_coverage.kernels.builder.macho import MachO
from mpsprobe_coverage.kernels.builder.stubs import Stubs

DEEPEST = 24  # calls; the deepest chain of 2.15.0 has 14
MOST_FUNCTIONS = 600  # of one operator
ALLOCATION = "__Znwm"
# Functions of at::native and at::(anonymous namespace), their blocks and lambdas; what wraps a kernel.
INSIDE = re.compile(r"^_+ZZ?N[KS]*2at(6native|12_GLOBAL__N_1|L)|^_+ZN[KS]*2atL|wrap_kernel_functor_unboxed")
# Shape functions, exception handling, constructors and destructors compute nothing.
OUTSIDE = re.compile(r"2at4meta|\.cold\.|[CD][012]E[RPvONS]")
ELEMENTWISE = re.compile(r"MetalShaderLibrary\d+exec_(?P<kind>unary|binary|ternary)_kernel(?:_with_params)?[EI]")
OTHER_METAL = re.compile(
    r"getLibraryPipelineState|getPipelineStateForFunc|getMTLFunction|KernelFunction|exec_\w+_kernel"
)
GRAPH = re.compile(r"runMPSGraph|LookUpOrCreateCachedGraph|MPSGraphCache")
OPERATOR_CALL = re.compile(r"^__ZN2at4_ops\d+(?P<name>\w+?)(?:4call|10redispatch)E")
STUB_CALL = re.compile(r"16DispatchStubImpl(?:12get_call_ptr|16try_get_call_ptr)E")
NAME_ARGUMENT = 2  # exec_unary_kernel(this, iterator, name, …)


@dataclass(slots=True)
class Reach:
    """What can be reached.

    Attributes:
        stubs: names of the stubs; None for one that is not known.
        elementwise: kind and operation of the Metal kernels that compute by element; None for a name not known.
        operators: other operators that are called (``mul_out``); not those that the outermost function calls.
        graph: whether an MPSGraph is run. metal: whether Metal kernels of another kind are.
        complete: whether everything was followed.
    """

    stubs: set[str | None] = field(default_factory=set)
    elementwise: set[tuple[str, str | None]] = field(default_factory=set)
    operators: set[str] = field(default_factory=set)
    graph: bool = False
    metal: bool = False
    complete: bool = True


@dataclass(slots=True)
class _Function:
    reach: Reach = field(default_factory=Reach)
    follows: list[int] = field(default_factory=list)


class CallGraph:
    """The calls of one library; functions are read once, when they are first met."""

    def __init__(self, library: MachO, stubs: Stubs) -> None:
        self._library = library
        self._stubs = stubs
        self._functions: dict[int, _Function] = {}
        self._allocations: dict[int, bool] = {}

    def reach(self, address: int) -> Reach:
        """What the registered function at ``address`` reaches."""
        found = Reach()
        seen, level = {address}, [address]
        for depth in range(DEEPEST + 1):
            following: list[int] = []
            for current in level:
                function = self._function(current)
                self._merge(found, function.reach, outermost=depth == 0 or self._is_wrapper(current))
                targets = list(function.follows)
                targets += [address for name, address in self._stubs.kernels.items() if name in function.reach.stubs]
                for target in targets:
                    if target not in seen:
                        seen.add(target)
                        following.append(target)
            level = following
            if not level or len(seen) > MOST_FUNCTIONS:
                break
        found.complete = not level
        return found

    @staticmethod
    def _merge(into: Reach, reach: Reach, outermost: bool) -> None:
        into.stubs |= reach.stubs
        into.elementwise |= reach.elementwise
        into.graph |= reach.graph
        into.metal |= reach.metal
        if not outermost:
            into.operators |= reach.operators

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
        extent = self._library.function_range(address)
        if extent is None:
            return function
        library = self._library
        for event in run(library.code(*extent), address, library.constant, self._allocates):
            if isinstance(event, Made):
                symbol = library.symbol_at(event.address)
                if symbol is not None and self._follows(symbol, event.address):
                    function.follows.append(event.address)
            elif isinstance(event, Call):
                self._call(event, function)
        return function

    def _call(self, call: Call, function: _Function) -> None:
        symbol = self._library.symbol_at(call.target)
        if symbol is None:
            return
        reach = function.reach
        if STUB_CALL.search(symbol):
            this = call.argument(0)
            reach.stubs.add(self._stubs.names.get(this) if isinstance(this, int) else None)
            return
        elementwise = ELEMENTWISE.search(symbol)
        if elementwise is not None:
            reach.elementwise.add((elementwise["kind"], call.state.string(call.argument(NAME_ARGUMENT))))
            return
        operator = OPERATOR_CALL.match(symbol)
        if operator is not None:
            reach.operators.add(operator["name"])
        elif GRAPH.search(symbol):
            reach.graph = True
        elif OTHER_METAL.search(symbol):
            reach.metal = True
        elif self._follows(symbol, call.target):
            function.follows.append(call.target)

    def _follows(self, symbol: str, address: int) -> bool:
        if not INSIDE.search(symbol) and "block_invoke" not in symbol:
            return False
        return not OUTSIDE.search(symbol) and self._library.function_range(address) is not None

    def _allocates(self, address: int) -> bool:
        known = self._allocations.get(address)
        if known is None:
            known = self._allocations[address] = self._library.symbol_at(address) == ALLOCATION
        return known
