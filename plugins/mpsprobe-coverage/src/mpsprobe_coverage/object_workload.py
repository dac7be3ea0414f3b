"""What a program hands over (a module, a function, a ``TorchRun``) as a workload."""

from __future__ import annotations

import contextlib
import copy
import inspect
import sys
import threading
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from mpsprobe.declarations import DTYPES
from mpsprobe.errors import UsageError
from mpsprobe.protocols import GenerateOptions, RunOptions, TorchRun

INPUTS = "a tensor, a tuple of positional or a dict of keyword arguments; () where there are none"
HELD = {"cpu", "meta"}
"""Where a model and its inputs may be: the scanner puts them on its own device."""
FUNCTIONS = (
    types.FunctionType, types.MethodType, types.BuiltinFunctionType, types.MethodDescriptorType,
    types.MethodWrapperType, types.WrapperDescriptorType, type(lru_cache(len)),
)  # fmt: skip
"""What Python makes of functions; what other libraries make of them, as ``tf.function``, is for their plugins."""
COMPILED = "judged operator by operator, as it runs without torch.compile"
DECODINGS: Mapping[str, Mapping[str, Any]] = {
    "greedy": {"do_sample": False, "num_beams": 1},
    "sampling": {"do_sample": True, "num_beams": 1},
    "beams": {"do_sample": False, "num_beams": 4},
}
_CALL = torch.nn.Module._call_impl.__code__


def given(model: object, inputs: object) -> Given | None:
    """The workload of ``model``, ``None`` where torch has nothing to do with it."""
    if isinstance(model, TorchRun):
        if inputs is not None:
            raise UsageError("a TorchRun brings its own inputs", "Leave them out.")
        return Given(model)
    function: Any = model
    args: tuple[Any, ...] = ()
    named: dict[str, Any] = {}
    while isinstance(function, partial):
        function, args, named = function.func, (*function.args, *args), {**function.keywords, **named}
    compiled = getattr(function, "_orig_mod", None)  # what torch.compile makes of a module holds it
    notes = [COMPILED] if isinstance(compiled, torch.nn.Module) else []
    function = compiled if notes else function
    is_module = isinstance(function, torch.nn.Module)
    if not is_module and not ((isinstance(function, FUNCTIONS) or isinstance(model, partial)) and inputs is not None):
        return None
    if inputs is None:
        raise UsageError(f"{type(function).__name__} needs inputs", f"Hand over what it is called with: {INPUTS}.")
    if isinstance(inputs, Mapping):
        named |= inputs
    else:
        args += tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    others = [leaf for leaf in tree_leaves((args, named)) if isinstance(leaf, torch.nn.Module)]
    module = function if is_module and not others else Function(function, others)
    return Given(TorchRun(module, args, named, notes=notes))


class Function(torch.nn.Module):
    """A function as a module, whose parts are ``modules`` and those that the function refers to."""

    def __init__(self, function: Callable[..., Any], modules: Sequence[torch.nn.Module] = ()) -> None:
        super().__init__()
        self.function = function
        # Not by ``add_module``: a variable may be called as a method of modules is.
        self._modules |= {f"input{n}": module for n, module in enumerate(modules)} | dict(_modules_of(function))

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def __deepcopy__(self, memo: object) -> Function:
        raise UsageError(
            "a function would run the program's own model, and change it",
            "Hand over the model itself, or a function without inputs that returns a model and its inputs.",
        )


def _modules_of(function: Any) -> Iterator[tuple[str, torch.nn.Module]]:
    """The modules in the closure and among the globals of ``function``, by their names, and whose method it is."""
    owner = function if isinstance(function, torch.nn.Module) else getattr(function, "__self__", None)
    if isinstance(owner, torch.nn.Module):
        yield "model", owner
    if inspect.isfunction(function):
        variables = inspect.getclosurevars(function)
        for name, value in {**variables.globals, **variables.nonlocals}.items():
            if isinstance(value, torch.nn.Module):
                yield name, value


class Given:
    """A run that a program has made: its very model is run, and has to be put back as it was."""

    framework = "torch"

    def __init__(self, run: TorchRun) -> None:
        self._run = run
        self.model: torch.nn.Module = run.model
        called = getattr(self.model, "function", None) if isinstance(self.model, Function) else None
        self.name: str = run.architecture or getattr(called, "__name__", type(self.model).__name__)

    def describe(self) -> Mapping[str, Any]:
        return {}

    @property
    def dtype(self) -> str:
        """The dtype of its first floating-point parameter, ``float32`` where it has none."""
        dtypes = (parameter.dtype for parameter in self.model.parameters() if parameter.dtype.is_floating_point)
        return str(next(dtypes, torch.float32)).removeprefix("torch.")

    def build(self, options: RunOptions) -> TorchRun:
        """The model in the mode that ``options`` ask for, if it can honour them, is on the CPU and not in use."""
        run, model = self._run, self.model
        for size in ("batch_size", "seq_len"):
            if getattr(options, size) is not None:
                flag = size.replace("_", "-")
                raise UsageError(f"the sizes of {self.name} are those of its inputs", f"Leave --{flag} out.")
        if options.size != "real":
            raise UsageError(f"{self.name} has the size that it was made with", "Leave --size out.")
        if options.dtype != self.dtype and options.dtype in DTYPES:
            hint = f"Leave --dtype out, or hand over a copy: copy.deepcopy(model).to(torch.{options.dtype})"
            raise UsageError(f"{self.name} is made of {self.dtype}, not of {options.dtype}", hint)
        _check_places(self.name, model, (run.args, dict(run.kwargs)))
        _check_idle(self.name, model)
        if options.weights and options.phase == "training":
            model = copy.deepcopy(model)  # its very values would be trained
        with contextlib.suppress(NotImplementedError):  # an exported program has one mode
            model.train(options.phase == "training")
        call = run.call
        if options.phase == "generate" and call is None and callable(getattr(model, "generate", None)):
            call = partial(_generate, options)
        architecture = self.name if isinstance(model, Function) else run.architecture
        return replace(run, model=model, architecture=architecture, call=call, correct=None)


def _generate(options: GenerateOptions, model: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    how: dict[str, Any] = {"max_new_tokens": options.new_tokens, **DECODINGS[options.decoding]}
    if options.cache != "dynamic":
        how["cache_implementation"] = options.cache
    try:
        return model.generate(*args, **{**how, **kwargs})
    finally:
        vars(model).pop("_cache", None)  # a static cache, which the next call would use again


def _check_places(name: str, model: torch.nn.Module, inputs: Any) -> None:
    tensors = [("the model", parameter) for parameter in (*model.parameters(), *model.buffers())]
    tensors += [("an input", leaf) for leaf in tree_leaves(inputs) if isinstance(leaf, torch.Tensor)]
    for what, tensor in tensors:
        if tensor.device.type not in HELD:
            raise UsageError(
                f"{what} of {name} is on {tensor.device}" if what == "an input" else f"{name} is on {tensor.device}",
                "Hand over model and inputs on the CPU (copy.deepcopy(model).cpu()): they are moved from there. "
                "What happens where they are, mpsprobe.observe() sees.",
            )


def _check_idle(name: str, model: torch.nn.Module) -> None:
    """No other thread runs the model: it would meet tensors of the virtual device."""
    own, running = threading.get_ident(), {id(module) for module in model.modules()}
    for thread, frame in sys._current_frames().items():
        while thread != own and frame is not None:
            if frame.f_code is _CALL and id(frame.f_locals.get("self")) in running:
                raise UsageError(
                    f"{name} is running in another thread", "Wait for it, or hand over a copy of the model."
                )
            frame = frame.f_back  # type: ignore[assignment]
