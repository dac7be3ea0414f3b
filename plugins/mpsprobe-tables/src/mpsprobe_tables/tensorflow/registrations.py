"""The kernels that a plugin registers by TensorFlow's C API (``tensorflow/c/kernels.h``), and on what each depends.

``TF_InitKernel`` is what TensorFlow calls when it loads a plugin. It runs once with every question to macOS answered by
yes, then once more for each question, with that one answered by no: what is missing then depends on it. macOS answers
as little as that takes: what can be one thing on one macOS and another on the next is a question.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from mpsprobe.errors import TableError
from mpsprobe_tables.tensorflow.machine import METHOD, Machine

if TYPE_CHECKING:
    from mpsprobe_tables.tensorflow.image import Image

Function = Callable[[], int | None]
DONE = struct.pack("<q", -1)
APPEND = "__ZNSt3__112basic_stringIcNS_11char_traitsIcEENS_9allocatorIcEEE6appendEPKcm"
STREAM = "__ZNSt3__113basic_ostreamIcNS_11char_traitsIcEEE"  # what 0.1.x writes a line of debugging to
SENTRY, SENTRY_END = f"{STREAM}6sentryC1ERS3_", f"{STREAM}6sentryD1Ev"


class System:
    """The functions of macOS's own libraries that a plugin calls.

    Args:
        machine: that they read and write.
        refused: the questions that are answered by no; every other one by yes.
    """

    def __init__(self, machine: Machine, refused: frozenset[str]) -> None:
        self._machine = machine
        self._refused = refused
        self._classes: dict[int, str] = {}
        self.asked: dict[str, None] = {}
        """Each question, in order: ``macOS 12.0``, ``class MPSGraph``, ``-[MPSGraph selector:]``."""
        self.functions: dict[str, Function] = {
            "_NSClassFromString": self._class_from_string,
            "_objc_msgSend": self._send,
            "_dispatch_once": self._once,
            "_dispatch_once_f": self._once_f,
            "_dlsym": self._dlsym,
            "__availability_version_check": self._version_check,
            "_malloc": self._allocate,
            "__Znwm": self._allocate,
            "__ZdlPv": _nothing,
            "_free": _nothing,
            "_memcpy": self._copy,
            "_memmove": self._copy,
            "_strlen": lambda: len(machine.read_text(machine.argument(0))),
            APPEND: self._append,
            SENTRY: self._sentry,
            SENTRY_END: _nothing,
            "__ZNKSt3__18ios_base6getlocEv": _nothing,
            "__ZNKSt3__16locale9use_facetERNS0_2idE": machine.new_object,
            "__ZNSt3__16localeD1Ev": _nothing,
            f"{STREAM}3putEc": lambda: machine.argument(0),
            f"{STREAM}5flushEv": lambda: machine.argument(0),
            METHOD: lambda: 0,
        }

    def _question(self, text: str) -> bool:
        self.asked[text] = None
        return text not in self._refused

    def _class_from_string(self) -> int:
        """``argument``: a constant ``NSString``, which has an address and a length behind its class and flags."""
        start, length = struct.unpack("<QQ", self._machine.read(self._machine.argument(0) + 16, 16))
        name = self._machine.read(start, length).decode("utf-8", "replace")
        if not self._question(f"class {name}"):
            return 0
        address = self._machine.allocate(16)
        self._classes[address] = name
        return address

    def _send(self) -> int:
        """Only one message is known: whether the instances of a class respond to a selector."""
        receiver, selector = self._machine.argument(0), self._machine.text(self._machine.argument(1))
        if receiver == 0:
            return 0
        if selector != "instancesRespondToSelector:" or receiver not in self._classes:
            raise KeyError(selector)
        return int(self._question(f"-[{self._classes[receiver]} {self._machine.text(self._machine.argument(2))}]"))

    def _once(self) -> None:
        predicate, block = self._machine.argument(0), self._machine.argument(1)
        if self._machine.read(predicate, 8) != DONE:
            self._machine.write(predicate, DONE)
            self._machine.go_on_with(self._machine.number(block + 16), block)

    def _once_f(self) -> None:
        predicate, context, function = (self._machine.argument(index) for index in range(3))
        if self._machine.read(predicate, 8) != DONE:
            self._machine.write(predicate, DONE)
            self._machine.go_on_with(function, context)

    def _dlsym(self) -> int:
        """``__isPlatformVersionAtLeast`` of the compiler's own library finds out so what it asks."""
        name = "_" + self._machine.text(self._machine.argument(1))
        return self._machine.imported(name) if name in self.functions else 0

    def _version_check(self) -> int:
        """``count``, then platform and version of each; the version is 0xMMMMmmpp."""
        _, version = struct.unpack("<II", self._machine.read(self._machine.argument(1), 8))
        return int(self._question(f"macOS {version >> 16}.{version >> 8 & 0xFF}"))

    def _allocate(self) -> int:
        return self._machine.allocate(self._machine.argument(0))

    def _copy(self) -> int:
        target, source, size = (self._machine.argument(index) for index in range(3))
        self._machine.write(target, self._machine.read(source, size))
        return target

    def _sentry(self) -> int:
        """``std::ostream::sentry``: nothing can be written to the stream, so that nothing is."""
        self._machine.write(self._machine.argument(0), bytes(16))
        return self._machine.argument(0)

    def _append(self) -> int:
        """``std::string::append(const char*, size_t)``. libc++ keeps strings in two ways, both of 24 bytes."""
        string, source, size = (self._machine.argument(index) for index in range(3))
        held = self._machine.read(string, 24)
        if self._machine.image.architecture == "arm64":
            long, short = held[23] & 0x80, held[: held[23]]
            start, length = struct.unpack_from("<QQ", held)
        else:
            long, short = held[0] & 1, held[1 : 1 + (held[0] >> 1)]
            length, start = struct.unpack_from("<QQ", held, 8)
        text = (self._machine.read(start, length) if long else short) + self._machine.read(source, size)
        place = self._machine.allocate(len(text) + 1)
        self._machine.write(place, text)
        if self._machine.image.architecture == "arm64":
            held = struct.pack("<QQQ", place, len(text), 1 << 63 | len(text) + 1)
        else:
            held = struct.pack("<QQQ", len(text) + 1 | 1, len(text), place)
        self._machine.write(string, held)
        return string


def _nothing() -> None:
    """Nothing that a plugin's registrations depend on."""


INIT = "_TF_InitKernel"
DTYPES = {
    1: "float32", 2: "float64", 3: "int32", 4: "uint8", 5: "int16", 6: "int8", 7: "string", 8: "complex64", 9: "int64",
    10: "bool", 11: "qint8", 12: "quint8", 13: "qint32", 14: "bfloat16", 15: "qint16", 16: "quint16", 17: "uint16",
    18: "complex128", 19: "float16", 20: "resource", 21: "variant", 22: "uint32", 23: "uint64",
}  # fmt: skip
"""``TF_DataType`` (``tensorflow/c/tf_datatype.h``) → its name, as NumPy writes it where NumPy has one."""
MOST_REGISTRATIONS = 20_000  # TensorFlow's own GPU build has 4,000
MOST_QUESTIONS = 16


@dataclass(frozen=True)
class Registration:
    """One registered kernel."""

    operator: str  # that it is for (``Conv2D``)
    device: str  # its device type (``GPU``)
    types: tuple[tuple[str, str], ...] = ()  # attributes and the dtype that each must have, in the order of the calls
    host: tuple[str, ...] = ()  # arguments that are in host memory


@dataclass
class Reading:
    """What one library registers."""

    # Each kernel, in order, with the questions whose yes it depends on; mostly none.
    registrations: list[tuple[Registration, tuple[str, ...]]]
    defined: tuple[str, ...]  # operators that the plugin itself adds to TensorFlow


class _Recorder:
    """TensorFlow, as far as a plugin sees it while it registers kernels. Nothing fails: every status is OK."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._builders: dict[int, Registration] = {}
        self.registered: list[Registration] = []
        self.defined: list[str] = []
        nothing = ("InputAttr", "Attr", "Input", "Output")
        self.functions: Mapping[str, Function] = {
            "_TF_NewStatus": lambda: machine.allocate(64),
            "_TF_DeleteStatus": lambda: None,
            "_TF_GetCode": lambda: 0,
            "_TF_NewKernelBuilder": self._new,
            "_TF_KernelBuilder_TypeConstraint": self._type,
            "_TF_KernelBuilder_HostMemory": self._host,
            "_TF_RegisterKernelBuilder": self._register,
            "_TF_NewOpDefinitionBuilder": self._define,
            "_TF_RegisterOpDefinition": lambda: None,
            **{f"_TF_OpDefinitionBuilderAdd{what}": lambda: None for what in nothing},
        }

    def _text(self, index: int) -> str:
        return self._machine.text(self._machine.argument(index))

    def _builder(self, index: int) -> Registration:
        builder = self._builders.get(self._machine.argument(index))
        if builder is None:
            raise TableError(f"{self._machine.image.name} uses a kernel builder that it did not make")
        return builder

    def _new(self) -> int:
        address = self._machine.allocate(16)
        self._builders[address] = Registration(self._text(0), self._text(1))
        return address

    def _type(self) -> None:
        builder, attribute, number = self._builder(0), self._text(1), self._machine.argument(2) & 0xFFFFFFFF
        if number not in DTYPES or attribute in dict(builder.types):
            raise TableError(f"{self._machine.image.name}: the dtypes of a kernel of {builder.operator} are not known")
        types = (*builder.types, (attribute, DTYPES[number]))
        self._builders[self._machine.argument(0)] = replace(builder, types=types)

    def _host(self) -> None:
        builder = self._builder(0)
        self._builders[self._machine.argument(0)] = replace(builder, host=(*builder.host, self._text(1)))

    def _register(self) -> None:
        if len(self.registered) >= MOST_REGISTRATIONS:
            raise TableError(f"{self._machine.image.name} registers more kernels than TensorFlow has")
        self.registered.append(self._builder(1))

    def _define(self) -> int:
        self.defined.append(self._text(0))
        return self._machine.allocate(16)


def read(image: Image) -> Reading:
    """The kernels that ``image`` registers, and what each depends on.

    Raises MissingPackage: ``unicorn`` is not installed; TableError: the library is no plugin, does what is not known
    here, or does not end.
    """
    whole, defined, asked = _run(image, frozenset())
    if len(asked) > MOST_QUESTIONS:
        raise TableError(f"{image.name} asks macOS more than {MOST_QUESTIONS} questions")
    needs: list[list[str]] = [[] for _ in whole]
    for question in asked:
        left = Counter(_run(image, frozenset({question}))[0])
        for index, registration in enumerate(whole):
            if left[registration]:
                left[registration] -= 1
            else:
                needs[index].append(question)
        if left.total():
            raise TableError(f"{image.name} registers other kernels where {question} does not hold")
    unconditional = [registration for registration, needed in zip(whole, needs, strict=True) if not needed]
    if unconditional != _run(image, frozenset(asked))[0]:
        raise TableError(f"{image.name} asks macOS questions that depend on each other")
    return Reading([(kernel, tuple(needed)) for kernel, needed in zip(whole, needs, strict=True)], tuple(defined))


def _run(image: Image, refused: frozenset[str]) -> tuple[list[Registration], list[str], list[str]]:
    """What is registered, what is defined, what was asked."""

    def answer(symbol: str) -> int | None:
        return functions[symbol]()

    machine = Machine(image, answer)
    recorder, system = _Recorder(machine), System(machine, refused)
    functions = {**system.functions, **recorder.functions}
    machine.run(INIT)
    return recorder.registered, recorder.defined, list(system.asked)
