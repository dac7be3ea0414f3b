"""What the library of a release shows about the kernels of single operators: Metal kernels by dtype, unset stubs.

Next to each kernel table of torch is a file ``torch-VERSION.kernels``. Its first line is
``mpsprobe-kernel-facts 2 SHA256``, the digest of all that follows; then one JSON document::

    {"base": "2.12.1", "release": "2.13.0", "sha256": …,
     "kernels": {"bool char … float": "exp log …"},
     "operators": {"unary:exp": "exp*", "stub:put_stub": "put_", "": "gone"},
     "refusals": {"self=complex: gather(): Yet not supported for complex": "gather+"},
     "graphs": {"empty graph": "mse_loss+"},
     "code": {"3f2a91": "mse_loss+"}}

The groups name what changed since ``base``, by what is known of it: of a kernel the Metal types of its input, of an
operator how its kernel computes, the dtypes with which the code of its kernel can only raise, by argument and message,
parted by `` | ``, whether it runs an MPSGraph, always or in some calls, and a digest of what its code does. ``""`` is
for what is no longer known. ``aten::`` is left out, ``exp+`` stands for ``exp exp.out``, ``exp*`` for these and
``exp_``, and ``glu_backward^`` for ``glu_backward glu_backward.grad_input``. Readers ignore what they do not know.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile

from mpsprobe_coverage.knowledge.kernels.format import Kind, OnDemand, apply, by_name, split
from mpsprobe_coverage.knowledge.kernels.releases import library_releases

CONVERTING = "cast:"
METAL_TYPES: Mapping[str, str] = {
    "float": "float32",
    "half": "float16",
    "bfloat": "bfloat16",
    "long": "int64",
    "int": "int32",
    "short": "int16",
    "char": "int8",
    "uchar": "uint8",
    "bool": "bool",
    "float2": "complex64",
    "half2": "complex32",
    "ulong": "uint64",
    "uint": "uint32",
    "ushort": "uint16",
}
"""Type in the name of a Metal kernel → dtype (``scalarToMetalTypeString`` in PyTorch's OperationUtils.mm)."""
STUB, NAMED = "stub", "named"
EVERY, SAME, CAST = "*", "**", "cast"
PARTED = " | "
GRAPH, MAY, EMPTY, EMPTY_INPUTS = "graph", "may", "empty", "empty-inputs"
ATEN = "aten::"
FOLDED: Mapping[str, tuple[str, ...]] = {"*": ("", ".out", "_"), "+": ("", ".out"), "^": ("", ".grad_input")}
"""What stands behind a name in a data file → what the operators have there that it names; the longest first."""
_COMPLEX, _INTEGRAL = ("complex32", "complex64"), ("uint8", "int8", "int16", "int32", "int64")
_UNSIGNED = ("uint16", "uint32", "uint64")
_GROUPS: Mapping[str, frozenset[str]] = {
    "exact": frozenset(("bool", *_COMPLEX, *_INTEGRAL, *_UNSIGNED)),
    "small": frozenset(
        ("float4_e2m1fn_x2", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu")
    ),
    "integral": frozenset(_INTEGRAL),
    "unsigned": frozenset(_UNSIGNED),
    "floating": frozenset(("float16", "float32", "bfloat16")),
    "complex": frozenset(_COMPLEX),
}
"""Dtypes that are mostly refused together: their name in a data file → those that it stands for."""
_NO_TYPE = "Trying to convert … to the MPS backend but it does not have support for that dtype."
_SHORT = {_NO_TYPE: "Trying"}  # the sentence that is there most often; what stands for it in a data file
_LONG = {short: text for text, short in _SHORT.items()}


@dataclass(frozen=True, slots=True, order=True)
class Refusal:
    """Dtypes with which the code of a kernel cannot return."""

    # Of which tensor; `*` where all tensors that the operator reads have the dtype, `**` where all do that it reads or
    # returns, `cast` where one of two tensors on MPS has it and the other has another one.
    argument: str
    dtypes: frozenset[str]  # by the names that torch has for them
    message: str  # what the kernel raises with; empty where that is not one sentence

    def __str__(self) -> str:
        names: list[str] = []
        rest = self.dtypes
        for name, dtypes in _GROUPS.items():
            if dtypes <= rest:
                names.append(name)
                rest -= dtypes
        return f"{self.argument}={','.join(sorted([*names, *rest]))}: {_SHORT.get(self.message, self.message)}"

    @classmethod
    def parsed(cls, text: str) -> Refusal:
        head, _, message = text.partition(": ")
        argument, _, dtypes = head.partition("=")
        names = dtypes.split(",")
        known = frozenset[str]().union(*(_GROUPS.get(name, frozenset((name,))) for name in names))
        return cls(argument, known, _LONG.get(message, message))


@dataclass(frozen=True, slots=True)
class KernelFacts:
    """What is known of one torch release.

    Attributes:
        kernels: Metal operation (``exp``) → the Metal types of its input; ``cast:`` before those that convert.
        operators: operator → how it computes, when it computes in no other way: ``unary:exp``, ``binary:fmax`` (one of
            them, where there are several), or ``stub:put_stub`` when it needs a stub that has no kernel for MPS.
        refusals: operator → what the code of its kernel refuses.
        graphs: operator → ``graph`` where every call whose tensors have elements makes an operand of an MPSGraph;
            ``may`` where some call can run one and another need not; of others no call does. ``empty`` where every one
            makes an operand whose inputs have no elements, ``empty-inputs`` if its results have some.
        code: operator → digest of what its kernel does; a release that has the same one has the same kernel.
    """

    release: str
    sha256: str  # of the wheel
    kernels: Mapping[str, frozenset[str]] = field(repr=False)
    operators: Mapping[str, frozenset[str]] = field(repr=False)
    refusals: Mapping[str, frozenset[Refusal]] = field(repr=False, default_factory=dict)
    graphs: Mapping[str, frozenset[str]] = field(repr=False, default_factory=dict)
    code: Mapping[str, str] = field(repr=False, default_factory=dict)

    def unset_stubs(self, operator: str) -> frozenset[str]:
        """The stubs that ``operator`` calls, when it can compute through nothing else and none has a kernel for MPS."""
        marked = (fact.partition(":") for fact in self.operators.get(operator, ()))
        return frozenset(name for kind, _, name in marked if kind == STUB)

    def operations(self, operator: str) -> Mapping[str, frozenset[str]]:
        """Kind of kernel (``unary``) → the Metal operations that ``operator`` can use; empty when that is not known."""
        operations: dict[str, set[str]] = {}
        for fact in self.operators.get(operator, ()):
            kind, _, name = fact.partition(":")
            if kind != STUB:
                operations.setdefault(kind, set()).add(name)
        return {kind: frozenset(names) for kind, names in operations.items()}


def _by_operator(groups: Mapping[str, str]) -> dict[str, str]:
    operators = {}
    for short, known in by_name(groups).items():
        name = short if "::" in short else f"{ATEN}{short}"
        for variant in FOLDED.get(name[-1], ("",)):
            operators[f"{name.rstrip('*+^')}{variant}"] = known
    return operators


FACTS = Kind(
    "mpsprobe-kernel-facts 2",
    ".kernels",
    {
        "kernels": by_name,
        "operators": _by_operator,
        "refusals": _by_operator,
        "graphs": _by_operator,
        "code": _by_operator,
    },
)


def facts_releases() -> tuple[str, ...]:
    return library_releases("torch", FACTS.suffix)


@functools.cache
def _refusals(text: str) -> frozenset[Refusal]:
    return frozenset(map(Refusal.parsed, text.split(PARTED)))


@functools.cache
def load_facts(release: str) -> KernelFacts:
    """The facts of one torch release; without any kernel or operator when the package has none of it."""
    known = FACTS.known(release)
    if known is None:
        return KernelFacts(release, "", {}, {})
    header, parts = known
    refusals = OnDemand(parts["refusals"], _refusals)
    texts, operators, graphs = (split(parts[part]) for part in ("kernels", "operators", "graphs"))
    return KernelFacts(release, header["sha256"], texts, operators, refusals, graphs, parts["code"])


@functools.cache
def _code() -> Mapping[str, Mapping[str, str]]:
    """Release, oldest first → operator → the digest of its kernel's code."""
    known: dict[str, str] = {}
    code = {}
    for file in FACTS.files():
        apply(file.changes["code"], known)
        code[file.release] = dict(known)
    return code


def same_code(operators: Sequence[str], release: str) -> tuple[str, str]:
    """The first and the last release around ``release`` in which the kernels of ``operators`` have the same code.

    Operators without a kernel in one of two releases are not compared; one at least is.
    """
    code = _code()
    here = code.get(release, {})

    def alike(other: str) -> bool:
        compared = [(here[name], code[other][name]) for name in operators if name in here and name in code[other]]
        return bool(compared) and all(one == another for one, another in compared)

    names = list(code)
    at = names.index(release) if release in code else 0
    first, *_ = (*takewhile(alike, reversed(names[:at])),)[::-1] or (release,)
    *_, last = (*takewhile(alike, names[at + 1 :]),) or (release,)
    return first, last
