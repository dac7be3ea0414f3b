"""Tensors that dispatch as MPS tensors and hold no data, unless a small real copy is worth keeping.

They can stand for those of another backend just as well.

A ``VirtualTensor`` is made with ``_make_subclass(…, dispatch_device=False, device_for_backend_keys=mps)``: its dispatch
keys are those of an MPS tensor, while C++ ``device()`` says ``meta``. With ``dispatch_device=True`` a backward pass
would ask for an MPS device guard, which a build without MPS does not have, and end the process.
"""

from __future__ import annotations

import functools
import mmap
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import torch
from torch._tensor_str import PRINT_OPTS, _add_suffixes, _tensor_str
from torch.utils._pytree import tree_map

from mpsprobe_coverage.knowledge.advisories.conditions import Place
from mpsprobe_coverage.knowledge.calls.call import Call
from mpsprobe_coverage.knowledge.calls.spec import CPU, TensorSpec, interned, spec_of
from mpsprobe_coverage.knowledge.memory.lifetimes import Held, Lifetimes

_PREFIX = "tensor("
_UNTOLD = (torch.int64, torch.bool)  # dtypes that can be seen from the values
MPS = torch.device("mps", 0)
MOST_STEPS = 4096  # of a loop over the most that could be found
_OF_DEVICE = "of_virtual_device"
_FIRST = 5  # before the package of the CPU
_PRIVATE: Any = (
    {"flags": mmap.MAP_PRIVATE} if hasattr(mmap, "MAP_PRIVATE") else {}
)  # shared memory is given when it is read


class _StandsFor:
    """What virtual tensors stand for: set while a device is open, which is one at a time in a process."""

    __slots__ = ("device", "lifetimes", "type")

    def become(self, device: torch.device, lifetimes: Lifetimes | None = None) -> None:
        self.device, self.type, self.lifetimes = device, device.type, lifetimes


stands_for = _StandsFor()
stands_for.become(MPS)
undispatched = torch._C._DisableTorchDispatch  # a context: tensors are made without passing the dispatch mode
_make_subclass = torch.Tensor._make_subclass
_PLAIN_DISPATCH = torch.Tensor.__torch_dispatch__
_base_to = torch._C.TensorBase.to
plain_tensor = torch.tensor  # while a device is open, torch's is another function
_base_data: Any = torch._C.TensorBase.data
layouts_seen: set[torch.layout] = set()  # sparse ones of virtual tensors; calls are looked through once there are any
without_data: set[type] = set()  # classes of tensors of the CPU that have none (``cpu_calls.py``)


class Shared:
    """A storage that several tensors may have: made with the first view, or when somebody asks for its place."""

    __slots__ = ("nbytes",)

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes


class VirtualTensor(torch.Tensor):
    """Dispatches as an MPS tensor; see the module's docstring. Made by ``virtual_tensor`` only."""

    spec: TensorSpec  # interned: equal ones are the same object and make cheap dictionary keys
    # A real CPU tensor with its values, where they are known and small: models read such values to decide what to run.
    # It follows PyTorch's aliasing, because views of shadows are real views.
    shadow: torch.Tensor | None
    assumed_truth: bool = False  # what a truth value of unknown data is taken for when the program asks
    assumed_count: Fraction | None = None  # what its numbers are taken for: `ASSUMPTIONS` in `recording/planning.py`
    memory: Held | None = None  # its storage, where lifetimes are recorded; views have that of their base
    shared: Shared | None = None  # the same of tensors that are views of one
    offset: int = 0  # where it begins in its storage, in elements; C++ has a storage of its own for each view
    conjugated: bool = False  # its numbers are to be read conjugated; C++ has no such bit for it
    is_most: bool = False  # it holds the most that could be found, over which a program may loop

    # Without this, each torch function called with such a tensor would pass through Python twice.
    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if any(map(takes_apart, types)):  # nested tensors hold virtual ones
            return NotImplemented
        raise RuntimeError(
            f"{func} was called on a tensor of a virtual device after the device was closed; "
            "use such tensors only inside 'with VirtualDevice(…)'"
        )

    # What Python asks a tensor about its device. C++ asks its own `device()`, which says `meta`.
    device = property(lambda self: stands_for.device)
    is_mps = property(lambda self: stands_for.type == "mps")
    is_xpu = property(lambda self: stands_for.type == "xpu")
    is_cuda = property(lambda self: stands_for.type == "cuda")
    is_meta = property(lambda self: False)
    is_cpu = property(lambda self: False)

    def get_device(self) -> int:
        return 0

    def is_conj(self) -> bool:
        return self.conjugated

    def resolve_conj(self) -> Any:
        return self.clone() if self.conjugated else self

    @property
    def data(self) -> Any:
        return _base_data.__get__(self)

    @data.setter
    def data(self, value: Any) -> None:
        if not isinstance(value, VirtualTensor) and not value.is_meta:
            _leave(self, value)
            return
        with undispatched():
            replaced = value if isinstance(value, VirtualTensor) else virtual_tensor(spec_of(value))
            _base_data.__set__(self, replaced)
        self.spec, self.shadow = replaced.spec, replaced.shadow
        take_over(self, replaced)

    def to(self, *args: Any, **kwargs: Any) -> Any:
        # C++ would look for the device's guard before it dispatches.
        device, options = parse_to(args, kwargs)
        if device is None or device.type in (stands_for.type, "meta"):
            return _base_to(self, **options) if options else self
        return _base_to(self, device=device, **options)

    def mps(self, *_args: Any, **_kwargs: Any) -> Any:
        return self

    def __getitem__(self, index: Any) -> Any:
        return torch.Tensor.__getitem__(self, known_places(index))

    def __setitem__(self, index: Any, value: Any) -> None:
        torch.Tensor.__setitem__(self, known_places(index), value)

    def __iter__(self) -> Any:
        if self.is_most and self.spec.shape[:1] > (MOST_STEPS,):
            raise RuntimeError(f"a loop over {self.spec.shape[0]:,} values, all different: too long to try")
        return torch.Tensor.__iter__(self)

    def tolist(self) -> Any:
        return self.cpu().tolist()

    def numpy(self, *, force: bool = False) -> Any:
        if force:
            return self.detach().cpu().numpy()
        # The words of PyTorch's own refusal matter little; that it refuses is what a Mac would do.
        raise TypeError(
            f"can't convert {stands_for.device} device type tensor to numpy. Use Tensor.cpu() to copy the tensor first."
        )

    def __array__(self, dtype: Any = None) -> Any:
        return self.numpy()

    def new_tensor(
        self, data: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False, pin_memory: bool = False
    ) -> Any:
        target = stands_for.device if device is None else device
        return torch.tensor(data, dtype=dtype or self.dtype, device=target, requires_grad=requires_grad)

    def type(self, dtype: Any = None, non_blocking: bool = False, **_kwargs: Any) -> Any:
        if dtype is None:
            on_cpu = torch.empty((), dtype=self.spec.dtype, device=CPU).type()
            return f"torch.{stands_for.type}." + on_cpu.removeprefix("torch.")
        if isinstance(dtype, torch.dtype):
            return self.to(dtype)
        name = dtype if isinstance(dtype, str) else f"{dtype.__module__}.{dtype.__name__}"
        return self.to(torch.empty(0, device=CPU).type("torch." + name.rsplit(".", 1)[-1]).dtype)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) in memo:
            return memo[id(self)]
        known = known_values(self)
        shadow = None if known is None else known.clone()
        with undispatched():
            copied = virtual_tensor(self.spec, shadow, self.requires_grad)
        if getattr(self, "_is_param", False):
            copied._is_param = True
        memo[id(self)] = copied
        return copied

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        return as_text(self, known_values(self), tensor_contents)

    def __format__(self, format_spec: str) -> str:
        return object.__format__(self, format_spec) if self.dim() else format(self.detach().item(), format_spec)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return reduced(self, known_values(self))

    def as_subclass(self, cls: Any) -> Any:
        # Of a class without dispatch of its own: C++ would make an alias that nothing here knows.
        plain = cls.__torch_dispatch__ is _PLAIN_DISPATCH
        return torch.ops.aten.alias.default(self) if plain else super().as_subclass(cls)

    def untyped_storage(self) -> Any:
        known = known_values(self)
        return on_the_device(zeros_for(super().untyped_storage()) if known is None else known.untyped_storage())

    def data_ptr(self) -> int:
        known = known_values(self)
        return self.untyped_storage().data_ptr() if known is None else known.data_ptr()

    def storage_offset(self) -> Any:
        known = known_values(self)
        return self.offset if known is None else known.storage_offset()


def _set_data(self: torch.Tensor, value: Any) -> None:
    if not isinstance(value, VirtualTensor):
        _base_data.__set__(self, value)
        return
    is_parameter = isinstance(self, torch.nn.Parameter)
    with undispatched():
        if type(self) in without_data:  # C++ asks such a tensor for its device in Python, and the answer changes
            torch._C._swap_tensor_impl(self, virtual_tensor(value.spec, None, self.requires_grad))
            vars(self).clear()
        else:
            _base_data.__set__(self, value)
    self.__class__ = type(value)
    moved: Any = self
    moved.spec, moved.shadow = value.spec, value.shadow
    take_over(moved, value)
    if is_parameter:
        moved._is_param = True


# Of every other tensor, while a device is open: `.to("mps")` of a module swaps the data of its parameters, which stay
# the same objects, so that an optimizer made before knows them. C++ gives such a tensor all keys but that of Python.
data_of_tensors = property(_base_data.__get__, _set_data)


def _leave(tensor: VirtualTensor, value: torch.Tensor) -> None:
    """``tensor.data = value``, which is on the CPU: the same object is an ordinary tensor then."""
    kind: Any = torch.nn.Parameter if isinstance(tensor, torch.nn.Parameter) else torch.Tensor
    gradient, requires_grad = tensor.grad, tensor.requires_grad
    if type(gradient) is VirtualTensor:  # `Module._apply` copies it afterwards into what is there then
        known = known_values(gradient)
        gradient = gradient.spec.filled(0) if known is None else known.clone()
    for name in ("spec", "shadow", "memory", "shared", "offset", "_is_param"):
        vars(tensor).pop(name, None)
    if type(value) in without_data:
        replacement: Any = value.detach().requires_grad_(requires_grad)
        tensor.__class__ = type(value)  # type: ignore[assignment]
        vars(tensor).update(vars(replacement), _is_param=kind is torch.nn.Parameter)
        torch._C._swap_tensor_impl(tensor, replacement)
        tensor.grad = gradient
        return
    tensor.__class__ = kind
    if not torch._C._dispatch_keys(tensor).has(torch._C.DispatchKey.Python):
        _base_data.__set__(tensor, value)
    else:  # nothing takes the key away: another tensor comes in its place
        torch._C._swap_tensor_impl(tensor, _make_subclass(kind, value.detach(), requires_grad))
    tensor.grad = gradient


def takes_apart(kind: Any) -> bool:
    """Whether tensors of this class handle operators in Python, and call others on the tensors that they hold."""
    own = kind.__torch_dispatch__ is not _PLAIN_DISPATCH
    return own and not issubclass(kind, VirtualTensor) and kind not in without_data


def mapped(change: Callable[[Any], Any], value: Any) -> Any:
    """``value`` with ``change`` applied to everything in its tuples, lists and dicts.

    As ``tree_map`` of PyTorch, at a tenth of its cost, for the arguments and results of operators.
    """
    kind = type(value)
    if kind is tuple:
        return tuple([mapped(change, item) for item in value])
    if kind is list:
        return [mapped(change, item) for item in value]
    if kind is dict:
        return {name: mapped(change, item) for name, item in value.items()}
    if isinstance(value, (tuple, list, dict)):
        return tree_map(change, value)  # named tuples, lists of torch.fx
    return change(value)


def with_tensors(change: Callable[[torch.Tensor], Any], values: Any, device: torch.device | None = None) -> Any:
    """``values`` with what ``change`` makes of each tensor, and with ``device``, if there is one, for each device."""

    def changed(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return change(value)
        return device if device is not None and isinstance(value, torch.device) else value

    return mapped(changed, values)


def known_values(tensor: VirtualTensor) -> torch.Tensor | None:
    shadow = tensor.shadow
    if shadow is not None and getattr(shadow.untyped_storage(), "spoiled", False):
        shadow = tensor.shadow = None
    return shadow


def forget(tensor: VirtualTensor) -> None:
    """Something unknown was written into ``tensor``: nothing that shares its memory is known any more."""
    if tensor.shadow is not None:
        # PyTorch keeps the Python object of a storage for as long as any tensor uses that storage.
        tensor.shadow.untyped_storage().spoiled = True  # type: ignore[attr-defined]
        tensor.shadow = None


def take_over(tensor: VirtualTensor, other: VirtualTensor) -> None:
    """``tensor`` has the memory of ``other`` from now on."""
    tensor.memory, tensor.shared, tensor.offset = other.memory, _shared(other), other.offset


def place_of(tensor: torch.Tensor) -> Place:
    if type(tensor) is VirtualTensor:
        return Place(_shared(tensor), tensor.offset, _shared(tensor).nbytes)
    storage = tensor.untyped_storage()
    return Place(storage._cdata, int(tensor.storage_offset()), storage.nbytes())


def _shared(tensor: VirtualTensor) -> Shared:
    if tensor.shared is None:
        tensor.shared = Shared(tensor.spec.held)
    return tensor.shared


def virtual_tensor(
    spec: TensorSpec,
    shadow: torch.Tensor | None = None,
    requires_grad: bool = False,
    base: VirtualTensor | None = None,
    offset: int = 0,
) -> VirtualTensor:
    """A fresh one, or a view that begins ``offset`` elements after ``base``.

    Outside the dispatch mode's handler: under ``undispatched``.
    """
    if base is not None and torch.is_inference_mode_enabled() and not base.is_inference():
        with torch.inference_mode(False):  # a view is an inference tensor only where its base is one
            return virtual_tensor(spec, shadow, requires_grad, base, offset)
    inner = spec.empty()
    if spec.layout is not torch.strided:
        layouts_seen.add(spec.layout)
    virtual: VirtualTensor = _make_subclass(
        VirtualTensor, inner, requires_grad, dispatch_device=False, device_for_backend_keys=stands_for.device
    )
    virtual.spec = spec
    virtual.shadow = shadow
    if base is not None:
        virtual.shared, virtual.offset = _shared(base), base.offset + offset
        if base.conjugated:
            virtual.conjugated = spec.dtype.is_complex
    lifetimes = stands_for.lifetimes
    if lifetimes is not None:
        virtual.memory = lifetimes.begin(spec.held) if base is None else base.memory
    return virtual


def known_places(index: Any) -> Any:
    """``index`` with tensors for its lists and arrays: C++ would make them on meta, and their values were lost."""
    if type(index) is tuple:
        return tuple([_known_place(place) for place in index])
    if type(index) is list and not all(isinstance(place, int) for place in index):
        return index  # it may stand for a tuple
    return _known_place(index)


def _known_place(place: Any) -> Any:
    if type(place) is not list and type(place).__name__ != "ndarray":
        return place
    with undispatched():
        places = plain_tensor(place, device=CPU)
        return virtual_tensor(spec_of(places), places) if places.numel() else place


def reshape_in_place(tensor: VirtualTensor, spec: TensorSpec) -> None:
    """Give ``tensor`` another spec, as ``resize_``, ``t_`` or an ``out=`` argument of the wrong size does."""
    if spec is not tensor.spec:
        with undispatched():
            _base_data.__set__(tensor, virtual_tensor(spec, base=tensor))
        tensor.spec = spec
        if tensor.memory is not None:
            tensor.memory.grow(spec.held)
        if tensor.shared is not None:
            tensor.shared.nbytes = max(tensor.shared.nbytes, tensor.offset * spec.dtype.itemsize + spec.held)


def parse_to(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[torch.device | None, dict[str, Any]]:
    """Arguments of ``Tensor.to`` as (device or None, everything else by keyword)."""
    options = dict(kwargs)
    other = options.pop("other", None)
    device = options.pop("device", None)
    rest = list(args)
    if rest and isinstance(rest[0], torch.Tensor):
        other = rest.pop(0)
    elif rest and (rest[0] is None or isinstance(rest[0], (str, int, torch.device))):
        device = rest.pop(0)
        if rest and (rest[0] is None or isinstance(rest[0], torch.dtype)):
            options["dtype"] = rest.pop(0)
    elif rest and isinstance(rest[0], torch.dtype):
        options["dtype"] = rest.pop(0)
    if other is not None:
        device, options["dtype"] = other.device, other.dtype
    options.update(zip(("non_blocking", "copy"), rest, strict=False))
    if options.get("dtype", ...) is None:
        del options["dtype"]
    return (None if device is None else torch.device(device)), options


def has_meta(args: Any, kwargs: Any) -> bool:
    """Whether a tensor of the device is among the arguments, though C++ named none.

    A plain meta tensor was made by C++ that asked a virtual tensor for its device; a parameter that was moved there has
    no key of Python (``data_of_tensors``).
    """
    for value in (*args, *kwargs.values()):
        for item in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(item, torch.Tensor) and (item.is_meta or type(item) is VirtualTensor):
                return True
    return False


def as_text(tensor: Any, known: torch.Tensor | None, contents: str | None = None) -> str:
    """What ``repr`` of a tensor says, for one that C++ believes to be on ``meta``; ``...`` for values not known."""
    suffixes = [f"device='{tensor.device}'"]
    empty = tensor.numel() == 0
    if known is None or (empty and tensor.dim() != 1) or not (empty or PRINT_OPTS.edgeitems):
        suffixes.append(f"size={tuple(tensor.shape)}")
    default = torch.get_default_dtype()
    seen = (default, torch.cdouble if default is torch.double else torch.cfloat, *_UNTOLD)
    if tensor.dtype not in ((default,) if known is None or empty else seen):
        suffixes.append(f"dtype={tensor.dtype}")
    if contents is None:
        contents = "..." if known is None else "[]"
        if known is not None and not empty:
            with torch.no_grad(), torch.utils._python_dispatch._disable_current_modes():
                contents = _tensor_str(known.detach(), len(_PREFIX))
    if tensor.grad_fn is not None:
        name = type(tensor.grad_fn).__name__
        suffixes.append(f"grad_fn=<{tensor.grad_fn.name().rsplit('::', 1)[-1] if name == 'CppFunction' else name}>")
    elif tensor.requires_grad:
        suffixes.append("requires_grad=True")
    text: str = _add_suffixes(_PREFIX + contents, suffixes, len(_PREFIX), force_newline=False)
    return f"Parameter containing:\n{text}" if isinstance(tensor, torch.nn.Parameter) else text


# Virtual tensors that stand for others in what is kept of a call: without values, memory and graph.
with undispatched():
    _NOTHING = virtual_tensor(interned((0,), (1,), torch.float32))


@functools.lru_cache(2**14)
def bare_of(spec: TensorSpec) -> VirtualTensor:
    with undispatched():
        return virtual_tensor(spec, base=_NOTHING)


class _OnTheCpu(VirtualTensor):
    device = property(lambda self: CPU)


def arrived(tensor: torch.Tensor) -> torch.Tensor:
    """Stands for a copy of ``tensor`` on the other one of CPU and device."""
    if type(tensor) is not VirtualTensor:
        return bare_of(spec_of(tensor))
    with undispatched():
        copied = virtual_tensor(tensor.spec)
    copied.__class__ = _OnTheCpu
    return copied


def bare_call(call: Call) -> Call:
    def bare(value: Any) -> Any:
        return bare_of(value.spec) if type(value) is VirtualTensor else value

    args, kwargs = mapped(bare, (call.args, call.kwargs))
    return replace(call, args=args, kwargs=kwargs)


# Saving tensors of the device, and loading tensors onto it: `torch.save`, `torch.load`, `pickle`. C++ has no storage on
# the device here. A storage of the CPU with the mark of the device stands for one: PyTorch's serialization asks a
# registered package where a storage is, and what to do with one that was there.
def on_the_device(storage: Any) -> Any:
    setattr(storage, _OF_DEVICE, True)
    return storage


def zeros_for(storage: Any) -> torch.UntypedStorage:
    """In place of a ``storage`` without data one of as many zeros, always the same: memory that nobody writes to."""
    if not hasattr(storage, "zeros"):  # PyTorch keeps the Python object of a storage while a tensor uses that
        memory = mmap.mmap(-1, max(storage.nbytes(), 1), **_PRIVATE)
        storage.zeros = torch.frombuffer(memory, dtype=torch.uint8).untyped_storage()
    zeros: torch.UntypedStorage = storage.zeros
    return zeros


def reduced(tensor: Any, known: torch.Tensor | None) -> tuple[Any, ...]:
    """What ``__reduce_ex__`` returns for ``tensor``; where values are not known, it is copied first."""
    hooks: OrderedDict[Any, Any] = OrderedDict()
    if isinstance(tensor, torch.nn.Parameter):
        return torch._utils._rebuild_parameter, (tensor.detach(), tensor.requires_grad, hooks)
    real = tensor.detach().cpu() if known is None else known.detach()
    rebuild, arguments = real.__reduce_ex__(2)
    on_the_device(real.untyped_storage())
    if rebuild is torch._utils._rebuild_tensor_v2:
        arguments = (*arguments[:4], tensor.requires_grad, *arguments[5:])
    return rebuild, arguments


def loading(
    device: torch.device, place: Callable[[torch.Tensor], Any], replace: Callable[[Any, str, Any], None]
) -> Callable[[], None]:
    """Let ``torch.load`` put tensors on ``device``, made by ``place`` of the CPU's; returns what undoes that."""

    def location(storage: Any) -> str | None:
        return device.type if getattr(storage, _OF_DEVICE, False) else None

    def restore(storage: Any, where: str) -> Any:
        return on_the_device(storage) if where.partition(":")[0] == device.type else None

    original: Any = torch._utils._rebuild_tensor

    @functools.wraps(original)  # torch.load allows functions by their names
    def rebuild(storage: Any, *rest: Any) -> Any:
        made = original(storage, *rest)
        return place(made) if location(storage._untyped_storage) else made

    package = (_FIRST, location, restore)
    torch.serialization.register_package(*package)
    replace(torch._utils, "_rebuild_tensor", rebuild)
    replace(torch.UntypedStorage, device.type, on_the_device)
    return lambda: torch.serialization._package_registry.remove(package)
