"""One step of a model as the graph that TensorFlow makes of it: traced, never run."""

from __future__ import annotations

import contextlib
import functools
import gc
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from mpsprobe.errors import WorkloadError
from mpsprobe.suggestions import in_short

BATCH = {"inference": 1, "training": 8}
"""Samples in a step where nobody says how many."""
FEW = 8
"""Numbers of a variable that gets its value."""
BACKWARD = "gradient_tape"
"""The name scope in which ``tf.GradientTape`` makes what it adds."""


@dataclass
class Step:
    """A step of a workload, traced."""

    graph: Any  # a GraphDef with the shapes of every result
    held: Mapping[str, str] = field(default_factory=dict)  # arguments that are variables → dtype of what they hold
    resident: Sequence[str] = ()  # arguments that are tensors which were made before
    returned: Sequence[str] = ()  # the tensors that the step returns
    effects: Sequence[str] = ()  # the operations that it runs for what they do, not for what they return
    architecture: str = ""  # the class of the model
    parameters: int = 0  # how many numbers its variables are
    parameters_bytes: int = 0
    batch_size: int | None = None
    times: Mapping[str, int] = field(default_factory=dict)  # node → how often the step has it, if more than once
    open_dimension: int | None = None  # what to take for first dimensions that nothing says; None: they are not known
    optimizer: str | None = None  # its class, in training
    optimizer_scope: str | None = None  # that name scope
    site: Callable[[str], str | None] = lambda _: None  # node → where in the source it is made, if that is known
    notes: list[str] = field(default_factory=list)  # what a reader of the report should know

    def phase(self, name: str) -> str:
        """Of the step: ``forward``, ``backward`` or ``optimizer``, by the name scope of a node."""
        parts = name.split("/")
        if BACKWARD in parts:
            return "backward"
        return "optimizer" if self.optimizer_scope is not None and parts[0] == self.optimizer_scope else "forward"


def traced(function: Callable[..., Any], specs: Sequence[Any], workload: str) -> tuple[Any, dict[str, str], list[str]]:
    """The graph of ``function``, the variables that it reads, and the other tensors that it takes from outside.

    ``specs`` has a ``tf.TensorSpec`` for each argument, or a structure of them.
    """
    import tensorflow as tf

    made = function if hasattr(function, "get_concrete_function") else tf.function(function, autograph=False)
    try:
        concrete = made.get_concrete_function(*specs)
    except Exception as error:  # whatever a model raises
        raise WorkloadError(f"'{workload}' cannot be traced: {in_short(error)}", _own_lines(error)) from error
    return concrete, *captures(concrete.graph)


def captures(graph: Any) -> tuple[dict[str, str], list[str]]:
    """What a traced function takes from outside: variables with the dtype that they hold, and tensors, by name."""
    held: dict[str, str] = {}
    resident = []
    for _, inside in graph.captures:
        if inside.dtype.name != "resource":
            resident.append(inside.op.name)
            continue
        variable = variable_of(inside)
        held[inside.op.name] = variable[0] if variable is not None else ""
    return held, resident


def variable_of(handle: Any) -> tuple[str, list[int | None]] | None:
    """Dtype and shape of what a handle in a graph stands for; ``None`` where that is no variable."""
    from tensorflow.python.framework import dtypes, tensor_shape
    from tensorflow.python.ops import handle_data_util

    data = handle_data_util.get_resource_handle_data(handle)
    if data is None or not data.is_set or len(data.shape_and_type) != 1:
        return None
    [one] = data.shape_and_type
    shape = tensor_shape.TensorShape(one.shape)
    return str(dtypes.as_dtype(one.dtype).name), shape.as_list() if shape.rank is not None else []


def site_of(graph: Any) -> Callable[[str], str | None]:
    """Where in the source a node of a traced function was made: in the user's files before those of libraries."""

    def site(name: str) -> str | None:
        try:
            frames = graph.get_operation_by_name(name).traceback
        except (KeyError, ValueError, AttributeError):
            return None
        paths = [(frame, frame.filename.replace("\\", "/")) for frame in frames]
        begun = max((index for index, (_, path) in enumerate(paths) if "/mpsprobe_tensorflow/" in path), default=-1)
        paths = paths[begun + 1 :]  # what called mpsprobe made nothing of the model
        outside = [frame for frame, path in paths if _in_library(path) is None]
        keras = [frame for frame, path in paths if "/keras/src/" in path]
        layers = [frame for frame in keras if re.search(r"[/\\](layers|optimizers)[/\\](?!layer\.py)", frame.filename)]
        owner = outside or layers or keras
        return f"{_short(owner[-1].filename)}:{owner[-1].lineno}" if owner else None

    return site


RUNS: ContextVar[bool] = ContextVar("RUNS", default=False)
"""Whether what is built is run, not only traced."""


@contextlib.contextmanager
def with_values() -> Iterator[None]:
    """What is built here is run: ``variables_without_values`` does nothing."""
    token = RUNS.set(True)
    try:
        yield
    finally:
        RUNS.reset(token)


@contextlib.contextmanager
def variables_without_values() -> Iterator[None]:
    """Variables of Keras that are made here get no value, and take no memory; only those of few numbers are real.

    Layers read some of these while they are built: mean and variance of ``Normalization``.

    TensorFlow's own ``UninitializedVariable``, which it makes for a SavedModel before its values are read.
    """
    if RUNS.get():
        yield
        return
    import keras
    import tensorflow as tf
    from tensorflow.python.ops import resource_variable_ops

    def make(next_creator: Callable[..., Any], **arguments: Any) -> Any:
        value = arguments.get("initial_value")
        cells = [cell.cell_contents for cell in getattr(value, "__closure__", None) or ()]
        owner = next((cell for cell in cells if isinstance(cell, keras.Variable)), None)
        if not callable(value) or owner is None or math.prod(owner.shape) <= FEW:
            return next_creator(**arguments)
        # Without a name: TensorFlow makes a kernel for each name, and variables that are alike share one.
        return resource_variable_ops.UninitializedVariable(
            trainable=arguments.get("trainable"),
            shape=owner.shape,
            dtype=owner.dtype,
            synchronization=arguments.get("synchronization"),
            aggregation=arguments.get("aggregation"),
        )

    with tf.variable_creator_scope(make):
        yield


@contextlib.contextmanager
def building_in_cpp() -> Iterator[None]:
    """TensorFlow checks the arguments of most operations that it traces in C++, not in Python: the graph is the same.

    The switch is TensorFlow's own (``core/config/flag_defs.h``), and off by default.
    """
    from tensorflow.core.config import flags

    switch = flags.config().graph_building_optimization
    before = switch.value()
    switch.reset(True)
    try:
        yield
    finally:
        switch.reset(before)


@contextlib.contextmanager
def without_collecting() -> Iterator[None]:
    """A graph and imported modules are kept anyway; looking for garbage, again and again, takes a fifth of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _own_lines(error: BaseException) -> str | None:
    import traceback

    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _in_library(frame.filename) is None]
    own = [frame for frame in frames if "mpsprobe_tensorflow" not in frame.filename]
    return (
        "\n".join(f"{_short(frame.filename)}:{frame.lineno} in {frame.name}: {frame.line}" for frame in own[-3:])
        or None
    )


def _short(path: str) -> str:
    """Of a library's file what comes after its folder of packages, of another one its name."""
    from pathlib import PurePath

    return _in_library(path) or PurePath(path).name


def _in_library(path: str) -> str | None:
    """``keras/src/ops.py``, whatever folder packages were installed into; None where ``path`` is in none of them."""
    plain = path.replace("\\", "/")
    for folder in _folders():
        if plain.startswith(folder):
            return plain.removeprefix(folder)
    return None


@functools.cache
def _folders() -> tuple[str, ...]:
    """Where packages are: Python's folders for them, and those from which TensorFlow and Keras were imported."""
    import site
    import sysconfig
    from pathlib import Path

    import keras
    import tensorflow

    imported = [str(Path(module.__spec__.origin).parent.parent) for module in (tensorflow, keras)]
    folders = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), site.getusersitepackages(), *imported]
    return tuple(dict.fromkeys(f"{folder}/".replace("\\", "/") for folder in folders))
