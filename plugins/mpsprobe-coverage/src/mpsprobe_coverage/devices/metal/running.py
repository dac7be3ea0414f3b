"""Libraries of Metal kernels that run on this machine, with what is wrong in a launch.

A library is compiled once for its text and kept in the user's cache folder, with the compiler that builds the native
device. Its kernels get the addresses of tensors in this machine's memory.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import torch

from mpsprobe.answers.folder import user_folder
from mpsprobe.errors import UsageError
from mpsprobe.suggestions import printable
from mpsprobe_coverage.devices.compiling import SUFFIX, compiler, made_once, reason_of, toolchain
from mpsprobe_coverage.devices.metal.translating import Parameter, Unknown, translated

HERE = Path(__file__).parent
FLAGS = ("-std=c++20", "-O1", "-fPIC", "-shared", "-w", "-ffp-contract=off", "-DNDEBUG", "-U_FORTIFY_SOURCE")
"""Fortified, ``longjmp`` would not go to the stack of another thread of a group."""
LARGEST_GROUP = 1024
MOST_STEPS = 2**32
"""Turns of loops in one launch, over all its threads; about ten seconds."""
MOST_COMPILING_S = 120
_AS_C: dict[str, Callable[[Any], Any]] = {
    "bool": ctypes.c_bool, "char": ctypes.c_int8, "uchar": ctypes.c_uint8, "short": ctypes.c_int16,
    "ushort": ctypes.c_uint16, "int": ctypes.c_int32, "int32_t": ctypes.c_int32, "uint": ctypes.c_uint32,
    "uint32_t": ctypes.c_uint32, "unsigned": ctypes.c_uint32, "float": ctypes.c_float, "long": ctypes.c_int64,
    "int64_t": ctypes.c_int64, "ulong": ctypes.c_uint64, "uint64_t": ctypes.c_uint64,
}  # fmt: skip
_ERROR_BYTES = 8 + 30 * (128 + 128 + 250 + 6)
_FIRST_ERROR = 4 + 256  # of the message, after the counter, file and function


class _Given(ctypes.Structure):
    _fields_ = (("data", ctypes.c_void_p), ("bytes", ctypes.c_int64))


class _Launch(ctypes.Structure):
    _fields_ = (
        ("given", ctypes.POINTER(_Given)),
        ("number", ctypes.c_int64),
        ("grid", ctypes.c_uint32 * 3),
        ("group", ctypes.c_uint32 * 3),
        ("most_steps", ctypes.c_int64),
        ("backwards", ctypes.c_int32),
        ("outside", ctypes.c_int32),
        ("index", ctypes.c_int64),
        ("at", ctypes.c_uint32 * 3),
        ("endless", ctypes.c_int32),
    )


class Fault(NamedTuple):
    """What is wrong in a launch of a kernel."""

    kernel: str
    text: str


class Library:
    """Kernels by name, as attributes. ``faults`` gets what is wrong in a launch.

    Raises:
        SyntaxError: the source has a construct that is not known here, or does not compile; as PyTorch raises it.
        UsageError: there is no compiler, or no folder of this user's own.
    """

    def __init__(self, source: str, faults: Callable[[Fault], object], *, most_steps: int = MOST_STEPS) -> None:
        try:
            text, self._kernels = translated(source)
        except Unknown as error:
            raise SyntaxError(f"not known to the Metal of mpsprobe: {error}") from None
        self._library = ctypes.PyDLL(str(_compiled(text)))  # one launch at a time: its threads share their lanes
        self._faults, self._most_steps = faults, most_steps

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self._kernels:
            raise AttributeError(f"the library has no kernel {name}")
        function = self._library[f"mpsprobe_run_{name}"]
        return Kernel(name, self._kernels[name], function, self._faults, self._most_steps)

    def __dir__(self) -> list[str]:
        return [*self._kernels]


class Kernel(NamedTuple):
    """A kernel, to be called as PyTorch calls one of Metal."""

    name: str
    parameters: tuple[Parameter, ...]
    function: Any
    faults: Callable[[Fault], object]
    most_steps: int

    @property
    def max_threads_per_threadgroup(self) -> int:
        return LARGEST_GROUP

    @property
    def thread_execution_width(self) -> int:
        return 32

    def __call__(
        self,
        *args: Any,
        threads: int | Sequence[int] | None = None,
        group_size: int | Sequence[int] | None = None,
        error_buf_idx: int | None = None,
        backwards: bool = False,
        **_others: Any,
    ) -> None:
        """Run it over ``threads`` in groups of ``group_size``; ``backwards``: lanes in the opposite order."""
        first = next((argument for argument in args if isinstance(argument, torch.Tensor)), None)
        grid = _three(first.numel() if threads is None and first is not None else threads or 1)
        # PyTorch chooses the first dimension, up to the largest group.
        group = _three(group_size if group_size is not None else max(1, min(LARGEST_GROUP, grid[0])))
        if group[0] * group[1] * group[2] > LARGEST_GROUP:
            raise RuntimeError(f"a group of {' x '.join(map(str, group))} threads: at most {LARGEST_GROUP} fit")
        errors = ctypes.create_string_buffer(_ERROR_BYTES)
        passed = [*args]
        if error_buf_idx is not None:
            passed.insert(error_buf_idx, errors)
        if len(passed) != len(self.parameters):
            raise RuntimeError(f"{self.name} takes {len(self.parameters)} arguments, not {len(passed)}")
        kept = [_given(argument, parameter) for argument, parameter in zip(passed, self.parameters, strict=True)]
        given = (_Given * len(kept))(*(_Given(address, size) for address, size, _ in kept))
        launch = _Launch(
            given, len(kept), (ctypes.c_uint32 * 3)(*grid), (ctypes.c_uint32 * 3)(*group), self.most_steps, backwards
        )
        if min(grid) > 0:
            self.function(ctypes.byref(launch))
        self._said(launch, errors.raw if error_buf_idx is not None else b"")

    def _said(self, launch: _Launch, errors: bytes) -> None:
        if launch.endless:
            self.faults(Fault(self.name, "it does not end"))
            raise RuntimeError(f"the kernel {self.name} does not end: stopped after {self.most_steps} turns of loops")
        if launch.outside:
            parameter = self.parameters[launch.outside - 1]
            at = ", ".join(map(str, launch.at))
            self.faults(Fault(self.name, f"{parameter.name}[{launch.index}] is outside its tensor, in thread ({at})"))
        if errors and int.from_bytes(errors[:4], sys.byteorder):
            said = errors[_FIRST_ERROR:].split(b"\0", 1)[0].decode(errors="replace")
            raise torch.AcceleratorError(said) if hasattr(torch, "AcceleratorError") else RuntimeError(said)


def _three(sizes: int | Sequence[int]) -> list[int]:
    lengths = [sizes] if isinstance(sizes, int) else [*sizes]
    return [*map(int, lengths), 1, 1, 1][:3]


def _given(value: Any, parameter: Parameter) -> tuple[int, int, object]:
    """The address and the bytes of an argument, and what keeps them alive."""
    if isinstance(value, torch.Tensor):
        storage = value.untyped_storage()
        return value.data_ptr(), storage.nbytes() - int(value.storage_offset()) * value.element_size(), value
    if not isinstance(value, ctypes.Array):
        items = [*value] if isinstance(value, (list, tuple)) else [value]
        of = _AS_C.get(parameter.dtype)
        if of is None:
            raise RuntimeError(f"a number cannot be passed as {parameter.dtype}")
        made: Any = of
        value = (made * len(items))(*items)
    return ctypes.addressof(value), ctypes.sizeof(value), value


@cache
def _compiled(text: str) -> Path:
    """The library of ``text``, compiled or kept from before."""
    digest = hashlib.sha256(repr((FLAGS, text, *toolchain())).encode())
    for header in sorted(HERE.glob("*.h")):
        digest.update(header.read_bytes())
    target = Path(user_folder(), "compiled", f"metal_{digest.hexdigest()[:24]}{SUFFIX}")
    if sys.platform == "win32":
        raise UsageError("Metal kernels are not run on Windows", "Use Linux or macOS, or leave --compile out.")
    return made_once(target, lambda made: _build(text, made))


def _build(text: str, library: Path) -> None:
    source = library.with_name("kernels.cpp")
    source.write_text(text, encoding="utf-8")
    includes = [f"-I{HERE}", f"-I{Path(torch.__file__).parent / 'include'}"]
    command = [compiler(), *FLAGS, *includes, str(source), "-o", str(library)]
    try:
        code, output = _ended(command)
    except OSError as error:
        raise UsageError(f"there is no {compiler()} for the Metal kernels", "Install a C++ compiler.") from error
    if code != 0:
        raise SyntaxError(f"the kernels do not compile: {printable(reason_of(output))}")


def _ended(command: Sequence[str]) -> tuple[int, str]:
    """The exit code of a compiler and what it printed; the parts that it starts end with it."""
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        errors="replace", process_group=0,
    ) as process:  # fmt: skip
        try:
            output, _ = process.communicate(timeout=MOST_COMPILING_S)
        except subprocess.TimeoutExpired:
            return 1, f"error: it took longer than {MOST_COMPILING_S} s"
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
        return process.returncode, output
