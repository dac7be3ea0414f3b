"""What in a program is written for CUDA: noted with its line, and answered as on a Mac, where there is no CUDA.

Or led to the MPS device (``as_cuda.py``), where the program was run so: what is noted is the same.

The places in torch that a program goes through: each way to a CUDA device ends in ``torch.cuda._lazy_init``, which C++
calls too (``torch/csrc/utils/device_lazy_init.cpp``).
"""

from __future__ import annotations

import ast
import linecache
import os
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import cache, wraps
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

import torch
import typing_extensions

from mpsprobe.schemas import CudaHint
from mpsprobe_coverage.devices.virtual.mps_in_python import replacing
from mpsprobe_coverage.programs.as_cuda import A_DEVICE, NAME, AsCuda, is_cuda, led
from mpsprobe_coverage.reporting.findings import site

DEVICE = 'device = "mps" if torch.backends.mps.is_available() else "cpu"'
ASKED = "torch.cuda.is_available()"
_INSTEAD = {
    ASKED: f"{DEVICE}; with torch 2.6 or later torch.accelerator.current_accelerator()",
    A_DEVICE: f".to(device), with {DEVICE}",
    'autocast("cuda")': 'torch.autocast("mps", dtype=torch.float16), from torch 2.5 on',
    'GradScaler("cuda")': 'torch.amp.GradScaler("mps"), or none: bfloat16 under autocast needs no scaler',
    "pin_memory=True": "pin_memory=False: the GPU and the CPU of a Mac share their memory",
    "nccl": "no process group: a Mac has one GPU",
    "gloo": "no process group: a Mac has one GPU, and gloo takes tensors of the CPU",
    "Tensor.is_cuda": 'tensor.device.type == "mps"',
    "torch.set_default_tensor_type()": f"torch.set_default_dtype(…) and torch.set_default_device(device), {DEVICE}",
    **dict.fromkeys(
        ("torch.cuda.memory_allocated()", "torch.cuda.memory_stats()"),
        "torch.mps.current_allocated_memory(); from torch 2.13 on torch.accelerator has the same name",
    ),
    "torch.cuda.memory_reserved()": "torch.mps.driver_allocated_memory()",
    **dict.fromkeys(
        ("torch.cuda.mem_get_info()", "torch.cuda.get_device_properties()"), "torch.mps.recommended_max_memory()"
    ),
    "torch.cuda.get_device_name()": '"mps"; from torch 2.10 on torch.backends.mps.get_name()',
    "torch.cuda.manual_seed_all()": "torch.manual_seed()",
    **dict.fromkeys(("torch.cuda.set_device()", "torch.cuda.device()"), "nothing: a Mac has one GPU"),
    **dict.fromkeys(
        (
            "torch.cuda.Stream()",
            "torch.cuda.stream()",
            "torch.cuda.current_stream()",
            "torch.cuda.default_stream()",
            "Tensor.record_stream()",
        ),
        "nothing: MPS has one stream",
    ),
}
# What these need, from their own documentation: CUDA (or ROCm) for all of them.
_PACKAGES = {
    "apex": "torch.optim and torch.autocast",
    "bitsandbytes": "torch.optim.AdamW, and float16 or bfloat16 weights instead of 8 or 4 bits",
    "cupy": "torch, or numpy on the CPU",
    "deepspeed": "one process without it: a Mac has one GPU",
    "flash_attn": 'torch.nn.functional.scaled_dot_product_attention (attn_implementation="sdpa")',
    "tensorrt": "Core ML, by coremltools",
    "triton": "PyTorch's operators, or a Metal kernel by torch.mps.compile_shader, from torch 2.6 on",
    "xformers": "torch.nn.functional.scaled_dot_product_attention",
}
_MADE = {torch.amp.autocast_mode.autocast: 'autocast("cuda")', torch.amp.grad_scaler.GradScaler: 'GradScaler("cuda")'}
_TORCH = str(Path(torch.__file__).parent) + os.sep
_COMPILER, _OF_CUDA = f"{_TORCH}_inductor{os.sep}", f"{_TORCH}cuda{os.sep}"
_BETWEEN = {typing_extensions.__file__}  # whose frames stand before those of deprecated names of torch
_MAC = ("mps", "accelerator")
NO_CUDA = "Torch not compiled with CUDA enabled"  # what PyTorch says on a Mac


class CudaHints:
    """Notes what a program asks of torch for CUDA."""

    def __init__(
        self,
        internal: Callable[[str], bool],  # whether a file is torch's or ours
        absent: bool,  # torch says that there is no CUDA, as on a Mac, also where there is
        leads: bool = False,  # the program's own lines see a CUDA device, which leads to the MPS device
        chip: str | None = None,  # of the Mac for which that device answers
    ) -> None:
        self.internal = internal
        self._absent = absent
        self._leads = AsCuda(self, chip) if leads else None
        self._noted: dict[tuple[str, str], dict[tuple[str, int], int]] = {}
        self._own: dict[str, bool] = {}
        libraries = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
        self._libraries = tuple(f"{folder}{end}" for folder in libraries for end in "/\\")

    @contextmanager
    def __call__(self) -> Iterator[None]:
        with replacing() as (put, exits):

            def replace(owner: Any, name: str, make: Callable[[Any], Any]) -> None:
                own = getattr(owner, name)
                put(owner, name, wraps(own)(make(own)))

            sys.meta_path.insert(0, self)
            exits.callback(self._see_no_more)
            replace(torch.cuda, "is_available", self._asked)
            replace(torch.cuda, "_lazy_init", self._started)
            for kind in _MADE:
                replace(kind, "__init__", self._making(_MADE[kind]))
            pins = self._noting(lambda _, named: ["pin_memory=True"] if named.get("pin_memory") else [])
            replace(torch.utils.data.DataLoader, "__init__", pins)
            if torch.distributed.is_available():
                for module in (torch.distributed, torch.distributed.distributed_c10d):
                    replace(module, "init_process_group", self._noting(_backends))
            if self._absent:
                if not self._leads:
                    replace(torch.cuda, "device_count", lambda _: lambda: 0)
                for name in ("cuda", "hip", "xpu"):
                    put(torch.version, name, None)
            with self._leads.everywhere() if self._leads else nullcontext():
                yield

    def _see_no_more(self) -> None:
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def found(self, on_the_device: bool, on_the_cpu: bool) -> list[CudaHint]:
        """What was noted, in the order in which it was. To ask for CUDA is a finding where the answer left work to
        the CPU: all of it, or a part, which is seen from a line that does not ask for MPS too.
        """
        hints = []
        for (what, instead), noted in self._noted.items():
            sites = noted
            if self._leads:
                sites = {origin: 1 for place in noted for origin in origins(*place)} if what == A_DEVICE else noted
            elif what == ASKED and on_the_device:
                sites = {place: calls for place, calls in noted.items() if on_the_cpu and not asks_for_mps_too(*place)}
            if sites:
                places = list(dict.fromkeys(site(*place) for place in sites))
                hints.append(
                    CudaHint(
                        what=what,
                        instead=instead,
                        calls=sum((noted if self._leads else sites).values()),
                        call_sites=places,
                    )
                )
        return hints

    def _asked(self, original: Any) -> Any:
        def is_available() -> bool:
            asking = sys._getframe(1)
            if not self.internal(asking.f_code.co_filename):
                self.note(ASKED, asking)
            if self._leads:
                return self.sees_cuda(asking)
            return not self._absent and original()

        return is_available

    def _started(self, original: Any) -> Any:
        def _lazy_init() -> None:
            if self._leads and sys._getframe(1).f_code.co_filename.startswith(_OF_CUDA):
                return
            if not _compiles(sys._getframe(1)):
                self.note("a CUDA device", sys._getframe(1), everyone=True)
            if self._absent:
                raise AssertionError(NO_CUDA)
            original()

        return _lazy_init

    def _making(self, what: str) -> Callable[[Any], Any]:
        """Of a class that is made for a device, which is CUDA's where none is named."""

        def around(original: Any) -> Any:
            def made(instance: Any, *args: Any, **named: Any) -> None:
                if not args:
                    args = (named.pop(next((key for key in ("device_type", "device") if key in named), ""), "cuda"),)
                if is_cuda(args[0]):
                    if named.get("enabled", True):
                        self.note(what, sys._getframe(1))
                    args = (led(args[0]) if self._leads else args[0], *args[1:])
                original(instance, *args, **named)

            return made

        return around

    def _noting(self, of_arguments: Callable[[Any, Any], Iterable[str]]) -> Callable[[Any], Any]:
        def around(original: Any) -> Any:
            def call(*args: Any, **named: Any) -> Any:
                for what in of_arguments(args, named):
                    self.note(what, sys._getframe(1))
                return original(*args, **named)

            return call

        return around

    def find_spec(self, name: str, path: object = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """A finder that finds nothing, and only sees which packages the program looks for."""
        if name in _PACKAGES:
            frame: FrameType | None = sys._getframe(1)
            while frame is not None and frame.f_code.co_filename.startswith("<"):
                frame = frame.f_back
            if frame is not None and self.is_own(frame.f_code.co_filename):
                self._add(f"import {name}", _PACKAGES[name], frame)
        return None

    def note(self, what: str, frame: FrameType | None, everyone: bool = False) -> None:
        """If the program's own code asked torch, or with ``everyone`` a library that it called."""
        nearest = None
        while frame is not None:
            file = frame.f_code.co_filename
            if not self.internal(file) and file not in _BETWEEN:
                nearest = nearest or frame
                if self.is_own(file):
                    break
                if not everyone:
                    return
            frame = frame.f_back
        place = frame or nearest
        if place is not None:
            self._add(what, _INSTEAD.get(what) or _same_name(what), place)

    def _add(self, what: str, instead: str, frame: FrameType) -> None:
        sites = self._noted.setdefault((what, instead), {})
        place = frame.f_code.co_filename, frame.f_lineno
        sites[place] = sites.get(place, 0) + 1

    def sees_cuda(self, asking: FrameType | None) -> bool:
        """Whether the program's own code asks, or ``torch.cuda``, also through other code of torch: no library."""
        if asking is not None and self.is_own(asking.f_code.co_filename):
            return True
        while asking is not None and self.internal(asking.f_code.co_filename):
            if asking.f_code.co_filename.startswith(_OF_CUDA):
                return True
            asking = asking.f_back
        return False

    def is_own(self, file: str) -> bool:
        """Whether a file is the program's, and neither of Python's library nor of an installed package."""
        if file not in self._own:
            self._own[file] = not self.internal(file) and not file.startswith(self._libraries)
        return self._own[file]


def _backends(args: Sequence[object], named: Mapping[str, object]) -> list[str]:
    """Those that ``init_process_group`` is called with and that a Mac does not need."""
    backend = str(args[0] if args else named.get("backend"))
    return [name for name in ("nccl", "gloo") if name in backend]


def _same_name(what: str) -> str:
    """What to write for a name of ``torch.cuda``: the same of another module, if it has it."""
    name = what.removesuffix("()").rpartition(".")[2]
    modules = (f"torch.{module}" for module in _MAC if hasattr(getattr(torch, module, None), name))
    return next((f"{module}.{name}()" for module in modules), "nothing: MPS has nothing like it")


def _compiles(frame: FrameType | None) -> bool:
    """Whether torch's compiler asks, which looks at every kind of device, whatever it compiles for."""
    while frame is not None and frame.f_code.co_filename.startswith(_TORCH):
        if frame.f_code.co_filename.startswith(_COMPILER):
            return True
        frame = frame.f_back
    return False


@cache
def origins(file: str, line: int) -> list[tuple[str, int]]:
    """Where the CUDA device comes from that is used at ``line``: that line, if it says so, or else where its name
    stands in the file. What stands nowhere, such as an argument of the program, is used at ``line``.
    """
    if "cuda" in linecache.getline(file, line).lower():
        return [(file, line)]
    try:
        nodes = [*ast.walk(ast.parse("".join(linecache.getlines(file))))]
    except (SyntaxError, ValueError):
        return [(file, line)]
    values = [node for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return [(file, node.lineno) for node in values if NAME.fullmatch(str(node.value))] or [(file, line)]


@cache
def asks_for_mps_too(file: str, line: int) -> bool:
    """Whether a program that asks for CUDA at ``line`` asks for MPS or the accelerator there too, so has a way for a
    Mac: in the same expression, in a branch of an ``if``, or in an ``if`` that stands directly before or after it.

    True where the source cannot be read.
    """
    source = linecache.getlines(file)
    try:
        tree = ast.parse("".join(source))
    except (SyntaxError, ValueError):
        return True
    fields = [value for node in ast.walk(tree) for _, value in ast.iter_fields(node)]
    blocks = [value for value in fields if isinstance(value, list) and value and isinstance(value[0], ast.stmt)]
    around = [(block, place) for block in blocks for place, statement in enumerate(block) if line in _lines(statement)]
    if not around:
        return True

    def length(found: tuple[list[ast.stmt], int]) -> int:
        block, place = found
        return len(_lines(block[place]))

    # An `elif` is an `if` inside the one above it; other statements are asked from inside out.
    ifs = [(block, place) for block, place in around if _asks(block[place], line)]
    block, place = max(ifs, key=length) if ifs else min(around, key=length)
    near = [block[place]]
    if ifs:
        near += [statement for statement in block[max(0, place - 1) : place + 2] if isinstance(statement, ast.If)]
    text = "".join("".join(source[statement.lineno - 1 : _end(statement)]) for statement in near).lower()
    return any(name in text for name in _MAC)


def _lines(node: ast.stmt | ast.expr) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


def _asks(statement: ast.stmt, line: int) -> bool:
    """Whether ``line`` is in the condition of an ``if``, or of its ``elif``."""
    while isinstance(statement, ast.If):
        if line in _lines(statement.test):
            return True
        if len(statement.orelse) != 1:
            return False
        statement = statement.orelse[0]
    return False


def _end(statement: ast.stmt) -> int:
    """The last line; of a block that is no ``if``, that of its head."""
    body = getattr(statement, "body", None)
    if isinstance(body, list) and body and not isinstance(statement, ast.If):
        return max(statement.lineno, int(body[0].lineno) - 1)
    return _lines(statement)[-1]
