"""The kernels that a plugin registers by TensorFlow's C API (``tensorflow/c/kernels.h``), and on what each depends.

``TF_InitKernel`` is what TensorFlow calls when it loads a plugin. It runs once with every question to macOS answered by
yes, then once more for each question, with that one answered by no: what is missing then depends on it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mpsprobe.errors import TableError
from mpsprobe_tables.tensorflow.machine import Machine
from mpsprobe_tables.tensorflow.system import Function, System

if TYPE_CHECKING:
    from mpsprobe_tables.tensorflow.image import Image

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
    """One registered kernel.

    Attributes:
        operator: that it is for (``Conv2D``).
        device: its device type (``GPU``).
        types: attributes and the dtype that each must have, in the order of the calls.
        host: arguments that are in host memory.
    """

    operator: str
    device: str
    types: tuple[tuple[str, str], ...]
    host: tuple[str, ...]


@dataclass
class Reading:
    """What one library registers.

    Attributes:
        registrations: each kernel, in order, with the questions whose yes it depends on; mostly none.
        defined: operators that the plugin itself adds to TensorFlow.
    """

    registrations: list[tuple[Registration, tuple[str, ...]]]
    defined: tuple[str, ...]


@dataclass
class _Builder:
    operator: str
    device: str
    types: dict[str, str] = field(default_factory=dict)
    host: list[str] = field(default_factory=list)


class _Recorder:
    """TensorFlow, as far as a plugin sees it while it registers kernels. Nothing fails: every status is OK."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._builders: dict[int, _Builder] = {}
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

    def _builder(self, index: int) -> _Builder:
        builder = self._builders.get(self._machine.argument(index))
        if builder is None:
            raise TableError(f"{self._machine.image.name} uses a kernel builder that it did not make")
        return builder

    def _new(self) -> int:
        address = self._machine.allocate(16)
        self._builders[address] = _Builder(self._text(0), self._text(1))
        return address

    def _type(self) -> None:
        builder, attribute, number = self._builder(0), self._text(1), self._machine.argument(2) & 0xFFFFFFFF
        if number not in DTYPES or attribute in builder.types:
            raise TableError(f"{self._machine.image.name}: the dtypes of a kernel of {builder.operator} are not known")
        builder.types[attribute] = DTYPES[number]

    def _host(self) -> None:
        self._builder(0).host.append(self._text(1))

    def _register(self) -> None:
        builder = self._builder(1)
        if len(self.registered) >= MOST_REGISTRATIONS:
            raise TableError(f"{self._machine.image.name} registers more kernels than TensorFlow has")
        self.registered.append(
            Registration(builder.operator, builder.device, tuple(builder.types.items()), tuple(builder.host))
        )

    def _define(self) -> int:
        self.defined.append(self._text(0))
        return self._machine.allocate(16)


def read(image: Image) -> Reading:
    """The kernels that ``image`` registers, and what each depends on.

    Raises:
        MissingPackage: ``unicorn`` is not installed.
        TableError: the library is no plugin, does what is not known here, or does not end.
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
    return Reading([(one, tuple(needed)) for one, needed in zip(whole, needs, strict=True)], tuple(defined))


def _run(image: Image, refused: frozenset[str]) -> tuple[list[Registration], list[str], list[str]]:
    """What is registered, what is defined, what was asked."""

    def answer(symbol: str) -> int | None:
        return functions[symbol]()

    machine = Machine(image, answer)
    recorder, system = _Recorder(machine), System(machine, refused)
    functions = {**system.functions, **recorder.functions}
    machine.run(INIT)
    return recorder.registered, recorder.defined, list(system.asked)
