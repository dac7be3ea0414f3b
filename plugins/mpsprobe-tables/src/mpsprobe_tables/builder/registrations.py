"""What a library registers with PyTorch's dispatcher, read from the code of its static initialisers.

``TORCH_LIBRARY_IMPL(aten, MPS, m)`` makes a function ``TORCH_LIBRARY_IMPL_init_aten_MPS_<n>``; each
``m.impl("name", …)`` in it loads the address of the name. ``TORCH_LIBRARY(aten, m)`` and ``TORCH_LIBRARY_FRAGMENT``
hold the schemas in the same way (torch/library.h). In all of torch 1.12.0 to 2.15.0 the form is this one; only the
number of functions changed.

torchvision uses PyTorch's stable C ABI since 0.29. ``STABLE_TORCH_LIBRARY_IMPL(torchvision, MPS, m)``
(torch/csrc/stable/library.h) is inlined into the static initialiser of its source file and calls C functions of
libtorch, whose names the binary keeps: one opens a library with a namespace and a key, the next ones register names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from mpsprobe.errors import TableError
from mpsprobe_coverage.knowledge.kernels.markers import MARKER_STRINGS
from mpsprobe_tables.builder.emulator import Call, Made, run
from mpsprobe_tables.builder.macho import MachO

NAMESPACE, KEY, TEXT = 0, 1, 1  # which argument of the calls


@dataclass(frozen=True, slots=True)
class StableRegistration:
    """An operator's name for a dispatch key, or, where ``key`` is ``None``, a schema."""

    namespace: str
    key: str | None
    text: str


def read_stable(library: MachO) -> Iterator[StableRegistration]:
    """Every kernel and schema that ``library`` registers through the stable ABI."""
    if not library.objects_named("STABLE_TORCH_LIBRARY_"):
        return
    for _, address in library.functions_named("_GLOBAL__sub_I_"):
        namespace, key = "", None
        for event in run(library, address):
            if not isinstance(event, Call):
                continue
            called = library.symbol_at(event.target) or ""
            if "torch_library_init_" in called:
                namespace = _text(library, event, NAMESPACE) or ""
                key = _text(library, event, KEY) if called.endswith("_impl") else None
            elif called.endswith(("torch_library_impl", "torch_library_def")):
                text = _text(library, event, TEXT)
                if text is not None:
                    yield StableRegistration(namespace, key, text)


def _text(library: MachO, call: Call, argument: int) -> str | None:
    address = call.argument(argument)
    return library.string_at(address) if isinstance(address, int) else None


COMPOSITE_KEYS = (
    "CompositeImplicitAutograd",
    "CompositeExplicitAutograd",
    "CompositeExplicitAutogradNonFunctional",
)
OLD_NAMES = {"CatchAll": "CompositeImplicitAutograd"}  # c10/core/DispatchKey.h
INITIALISER = re.compile(
    r"(?P<digits>\d+)(?P<name>TORCH_LIBRARY_(?P<kind>IMPL_|FRAGMENT_|)init_(?P<body>\w+?))E?RN5torch7LibraryE$"
)
OPERATOR = re.compile(r"(?:(?P<namespace>[A-Za-z_]\w*)::)?(?P<name>[A-Za-z_]\w*(?:\.\w+)?)$")
SCHEMA = re.compile(r"(?:(?P<namespace>[A-Za-z_]\w*)::)?(?P<name>[A-Za-z_]\w*(?:\.\w+)?)\(.*\) ?-> ?.*$", re.DOTALL)
MACOS_MINIMUM = re.compile(r"supported on mac ?os ?(\d+(?:\.\d+)?)\s*\+", re.IGNORECASE)
FALLBACK_KERNEL = "mps_fallback"


@dataclass(slots=True)
class Registrations:
    """What one library registers. Operators are written ``namespace::name.overload``."""

    # Dispatch key → operators; the keys of MPS and the composite ones.
    kernels: dict[str, set[str]] = field(default_factory=dict)
    # Of those under MPS, the ones whose kernel is PyTorch's own ``mps_fallback``.
    fallback: set[str] = field(default_factory=set)
    # Of those under MPS, the ones that stand among the fallbacks with a kernel that only raises.
    error: set[str] = field(default_factory=set)
    defined: set[str] = field(default_factory=set)  # operators that the library defines
    macos_minimum: str | None = None  # from the message of the backend, ``None`` when there is none
    # Names of the facts of ``markers.MARKER_STRINGS`` that the library's strings show.
    markers: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class _Initialiser:
    kind: str
    namespace: str
    key: str
    address: int


def read_registrations(library: MachO) -> Registrations:
    """Everything that the table needs from one Mach-O library.

    Raises TableError: the library is corrupted, or an initialiser has another form.
    """
    registrations = Registrations()
    for initialiser in initialisers(library):
        if initialiser.kind == "IMPL_":
            _read_kernels(library, initialiser, registrations)
    registrations.defined.update(operator for operator, _ in schemas(library))
    for registration in read_stable(library):
        if registration.key is None:
            if (match := SCHEMA.match(registration.text)) is not None:
                registrations.defined.add(f"{match['namespace'] or registration.namespace}::{match['name']}")
        elif _is_wanted(registration.key):
            operator = operator_name(registration.text, registration.namespace)
            if operator is not None:
                registrations.kernels.setdefault(registration.key, set()).add(operator)
    _read_strings(library, registrations)
    return registrations


def initialisers(library: MachO) -> Iterator[_Initialiser]:
    """The functions that register kernels for the keys of MPS and the composite ones, or schemas, by address."""
    for symbol, address in library.functions_named("TORCH_LIBRARY_"):
        match = INITIALISER.search(symbol)
        # The mangled name carries its length, behind the digits of an anonymous namespace ("_GLOBAL__N_1" + "34").
        if match is None or not match["digits"].endswith(str(len(match["name"]))):
            continue
        kind, body = match["kind"], match["body"]
        if kind == "":
            yield _Initialiser(kind, body, "", address)
            continue
        numbered = re.fullmatch(r"(\w+)_\d+", body)
        if numbered is None:
            raise TableError(f"{library.name}: the initialiser {symbol} has an unknown form")
        if kind == "FRAGMENT_":
            yield _Initialiser(kind, numbered[1], "", address)
            continue
        namespace, _, key = numbered[1].rpartition("_")
        key = OLD_NAMES.get(key, key)
        if namespace != "_" and _is_wanted(key):  # "_" is a fallback for every operator
            yield _Initialiser(kind, namespace, key, address)


def _read_kernels(library: MachO, initialiser: _Initialiser, registered: Registrations) -> None:
    names: list[tuple[str, bool]] = []
    falls_back = own_kernel = False
    for event in run(library, initialiser.address):
        made = isinstance(event, Made)
        text = library.string_at(event.address) if made else None
        if text is not None:
            operator = operator_name(text, initialiser.namespace)
            if operator is not None:
                names.append((operator, own_kernel))
                own_kernel = False
            continue
        symbol = library.symbol_at(event.target if isinstance(event, Call) else event.address)
        if symbol is not None and FALLBACK_KERNEL in symbol:
            falls_back, own_kernel = True, False
        elif symbol is not None and made:
            own_kernel = True
    kernels = registered.kernels.setdefault(initialiser.key, set())
    kernels.update(operator for operator, _ in names)
    if falls_back and initialiser.key == "MPS":
        # What is registered with a kernel other than the fallback is there to raise (MPSFallback.mm).
        registered.error.update(operator for operator, own in names if own)
        registered.fallback.update(operator for operator, own in names if not own)


def schemas(library: MachO) -> Iterator[tuple[str, str]]:
    """Every operator that ``library`` defines other than through the stable ABI, and its schema."""
    for initialiser in initialisers(library):
        if initialiser.kind != "IMPL_":
            for event in run(library, initialiser.address):
                text = library.string_at(event.address) if isinstance(event, Made) else None
                if text is not None and (match := SCHEMA.match(text)) is not None:
                    yield f"{match['namespace'] or initialiser.namespace}::{match['name']}", match[0]


def _is_wanted(key: str) -> bool:
    return key.endswith("MPS") or key in COMPOSITE_KEYS


def operator_name(text: str, namespace: str) -> str | None:
    """``namespace::name.overload`` for the text of an ``m.impl``; None where it names no operator."""
    match = OPERATOR.match(text)
    return None if match is None else f"{match['namespace'] or namespace}::{match['name']}"


def _read_strings(library: MachO, registered: Registrations) -> None:
    for text in library.strings_containing("he MPS backend is supported on "):
        match = MACOS_MINIMUM.search(text)
        if match is not None:
            registered.macos_minimum = match[1]
    for marker, strings in MARKER_STRINGS.items():
        if any(string in text for string in strings for text in library.strings_containing(string)):
            registered.markers.add(marker)
