"""Which operators the composite kernels and the derivatives of a release call.

From the function that is registered under a composite key, or a node's ``apply``, calls are followed inside ``at`` and
``torch::autograd::generated`` up to the dispatcher: ``at::_ops::<name>::call`` or ``redispatch``. Both ways of every
branch count, and so do functions that are only passed on. What is called through a DispatchStub or a table of virtual
functions is not seen.

Reading and writing through an index is made of operators too, in C++ of ``libtorch_python.dylib``
(``torch/csrc/autograd/python_variable_indexing.cpp``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from mpsprobe_coverage.knowledge.kernels.compositions import HARMLESS, INDEXING, Compositions
from mpsprobe_tables.builder.callgraph import OPERATOR_CALL
from mpsprobe_tables.builder.emulator import Call, Made, run
from mpsprobe_tables.builder.facts import registered_functions
from mpsprobe_tables.builder.macho import MachO
from mpsprobe_tables.builder.registrations import COMPOSITE_KEYS

NAMESPACE = "aten::"
# Shape functions, kernels of MPS, wrappers of other dispatch keys.
FOLLOWED = re.compile(
    r"^_+ZZ?N[KS]*2at(?!4_ops|4meta|6native3mps|6native5metal|6tracer|9functorch|9autocast)|^_+ZN[KS]*2atL"
    r"|wrap_kernel_functor_unboxed|^_+ZZ?N[KS]*5torch8autograd9generated"
)
CLEANING_UP = re.compile(r"\.cold\.|D[012]Ev$")
NODE = re.compile(r"^__ZN5torch8autograd9generated\d+(?P<name>\w+?)5applyEO")
INDEXED = re.compile(r"^__ZN5torch8autogradL?\d+THPVariable_(?P<what>[gs]etitem)E[\w]*$")
OF_INDEXING = re.compile(r"^_+ZZ?N[KS]*5torch8autogradL?\d+(?!THPVariable_)[a-z]")


def read_compositions(
    library: MachO, python: MachO | None, operators: Iterable[str], release: str, sha256: str
) -> Compositions:
    """The compositions that the libraries of a wheel show; takes some seconds.

    Raises TableError: a library is corrupted.

    Args:
        library: ``libtorch_cpu.dylib``.
        python: ``libtorch_python.dylib``, where the wheel has it.
        operators: every operator of the release; the code has their names without the dots.
        sha256: of the wheel.
    """
    names = {name.replace(".", "_"): name for name in _of_aten(operators)}
    calls: dict[str, frozenset[str]] = {}
    walk = _Walk(library, FOLLOWED)
    for key in COMPOSITE_KEYS:  # where an operator has several, the last one is what the dispatcher takes
        for operator, function in registered_functions(library, key).items():
            calls |= {name: walk.operators(function) for name in _of_aten([operator])}
    for symbol, function in library.functions_named("5torch8autograd9generated"):
        node = NODE.match(symbol)
        if node is not None:
            calls[node["name"]] = walk.operators(function)
    if python is not None:
        calls |= _indexing(python)
    compositions = {
        name: frozenset(names[part] for part in called if part in names and names[part].split(".")[0] not in HARMLESS)
        for name, called in calls.items()
    }
    return Compositions(release, sha256, compositions)


def _of_aten(operators: Iterable[str]) -> Iterator[str]:
    return (name.removeprefix(NAMESPACE) for name in operators if name.startswith(NAMESPACE))


def _indexing(python: MachO) -> dict[str, frozenset[str]]:
    walk = _Walk(python, re.compile(f"{FOLLOWED.pattern}|{OF_INDEXING.pattern}"))
    symbols = ((INDEXED.match(symbol), function) for symbol, function in python.functions_named("THPVariable_"))
    return {INDEXING[match["what"]]: walk.operators(function) for match, function in symbols if match is not None}


class _Walk:
    """What functions of one library call; each is read once."""

    def __init__(self, library: MachO, followed: re.Pattern[str]) -> None:
        self._library, self._followed = library, followed
        self._read: dict[int, tuple[frozenset[str], frozenset[int]]] = {}

    def operators(self, function: int) -> frozenset[str]:
        """The operators that ``function`` reaches, named as in the code (``add_Tensor``)."""
        names: set[str] = set()
        met = {function}
        waiting = [function]
        while waiting:
            operators, functions = self._of(waiting.pop())
            names |= operators
            waiting += functions - met
            met |= functions
        return frozenset(names)

    def _of(self, function: int) -> tuple[frozenset[str], frozenset[int]]:
        known = self._read.get(function)
        if known is None:
            operators, functions = set(), set()
            for event in run(self._library, function):
                if isinstance(event, (Call, Made)):
                    target = event.target if isinstance(event, Call) else event.address
                    symbol = self._library.symbol_at(target) or ""
                    operator = OPERATOR_CALL.match(symbol)
                    if operator is not None:
                        operators.add(operator["name"])
                    elif self._library.is_function(target) and self._follows(symbol):
                        functions.add(target)
            known = self._read[function] = frozenset(operators), frozenset(functions)
        return known

    def _follows(self, symbol: str) -> bool:
        return self._followed.search(symbol) is not None and CLEANING_UP.search(symbol) is None
