"""What Inductor generates for MPS in this process: kernels, refusals, graph breaks; and what answers for Metal.

Facts, from ``torch/_inductor`` of 2.13: ``MetalScheduling.define_kernel`` gives each kernel its name, and
``AsyncCompile.wait`` passes the kernels of a graph to ``torch.mps.compile_shader`` as one source. The generator is
Python and does not look at a device, but for the GPU's name and its number of cores.
"""

from __future__ import annotations

import os
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch._C._dynamo import eval_frame
from torch._dynamo import output_graph
from torch._dynamo.eval_frame import skip_code
from torch._dynamo.utils import clear_compilation_metrics, get_compilation_metrics
from torch._dynamo.variables import nn_module
from torch._inductor.codegen.mps import MetalKernel, MetalScheduling
from torch._inductor.graph import GraphLowering
from torch._inductor.virtualized import V
from torch.utils import _traceback

from mpsprobe.errors import UsageError
from mpsprobe.output import TemporaryFolder
from mpsprobe.suggestions import first_line, type_name
from mpsprobe_coverage.devices.interpreter import answer_c
from mpsprobe_coverage.recording.attribution import is_internal
from mpsprobe_coverage.recording.capturing import captured, is_on_mps
from mpsprobe_coverage.recording.references import of_images

_GUARD = re.compile(
    r"(?:\d+/\d+: )?(?P<guard>[^\n]*?)\s*(?:#[^\n]*?(?:# (?P<file>[^\s:]+):(?P<line>\d+) in \w+)?)?$", re.MULTILINE
)
_FRAME = re.compile(r'File "(.+)", line (\d+)')
Line = tuple[str, int]
Replace = Callable[[Any, str, Any], None]


class Place(NamedTuple):
    """A place in a graph's wrapper where a kernel is launched, with what its tensors are in the graph.

    ``outputs`` are the first of its tensors: for each, the node that it computes, and whether it writes over what is
    there. ``inputs`` are the nodes of all its tensors before the launch, ``sizes`` the names of the numbers after them.
    ``None``: not known.
    """

    outputs: tuple[tuple[torch.fx.Node | None, bool], ...]
    inputs: tuple[torch.fx.Node | None, ...]
    sizes: tuple[str, ...]


@dataclass(eq=False, slots=True)
class Kernel:
    """One kernel that Inductor generated; ``operators`` are those of ATen that it computes."""

    name: str
    graph: int  # of the graphs in the order of their compilation, from 0 on
    source: str
    operators: tuple[str, ...]
    lines: tuple[Line, ...]  # of the program
    backward: bool
    places: list[Place] = field(default_factory=list)  # in the order of the wrapper

    @property
    def title(self) -> str:
        return f"graph_{self.graph}/{'backward/' * self.backward}{self.name}"


class Refused(NamedTuple):
    graph: int
    operator: str | None
    reason: str
    line: Line | None


class Broken(NamedTuple):
    reason: str
    line: Line | None


@dataclass(slots=True)
class Generated:
    """What was generated since this was opened. ``lines``: where the program called each node of a graph."""

    kernels: list[Kernel] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)
    broken: list[Broken] = field(default_factory=list)
    lines: dict[str, Line] = field(default_factory=dict)
    graphs: int = 0
    not_run: str | None = None  # why no kernel could be compiled here
    _pending: dict[str, Kernel] = field(default_factory=dict)
    _node: Any = None  # of the graph: what is lowered, or generated, now
    _scheduled: Any = ()  # nodes of the scheduler: the last kernel's

    def recompiled(self) -> list[Broken]:
        """Why functions were compiled again: the guard that failed, and its line, or where the function begins."""
        refusals = []
        for metric in get_compilation_metrics():
            if metric.recompile_reason and (guard := _GUARD.match(metric.recompile_reason.strip())) is not None:
                lines = [(guard["file"], int(guard["line"]))] if guard["file"] else []
                begins = (metric.co_filename or "", metric.co_firstlineno or 0)
                refusals.append(Broken(guard["guard"], _innermost([begins, *lines])))
        return refusals

    def has(self, source: str) -> bool:
        """Whether ``source`` is of a graph, and not the program's own."""
        return bool(self._pending) and "kernel void generated_kernel" in source

    def defined(self, source: str) -> dict[str, Kernel]:
        """The kernels of ``source``, by name, which Inductor has just defined."""
        kernels = {}
        for name in re.findall(r"kernel void (\w+)\(", source):
            # Before 2.13 each is a library of its own, whose function has the same name in all of them.
            known = name if name in self._pending else next(iter(self._pending), None)
            if known is not None:
                kernels[name] = self._pending.pop(known)
        self.kernels += kernels.values()
        return kernels


@contextmanager
def generating(replace: Replace, shader: Callable[[Generated, str], Any], *, keep_going: bool) -> Iterator[Generated]:
    """Let Inductor generate for MPS, as it would on a Mac, where a graph that it refuses raises.

    ``shader`` makes what ``torch.mps.compile_shader`` returns for a source, whose headers are in it.
    """
    made = Generated()
    define, lower, wrapper = MetalScheduling.define_kernel, GraphLowering.run_node, torch._TorchCompileInductorWrapper
    compiled, subgraph = wrapper.__call__, output_graph.OutputGraph.compile_subgraph
    codegen, call_kernel = MetalScheduling.codegen_node, MetalKernel.call_kernel

    def defined(self: Any, source: str, nodes: Any, kernel: Any) -> str:
        name = define(self, source, nodes, kernel)
        made._scheduled = nodes
        if name in made._pending:  # the same text as before, for other nodes
            return name
        text = textwrap.dedent(source[source.index("'''") + 3 : source.rindex("'''")]).strip() + "\n"
        text = text.replace(" generated_kernel(", f" {name}(")
        made._pending[name] = Kernel(name, made.graphs - 1, text, *_origins(nodes), V.graph.is_backward)
        return name

    def called(self: Any, name: str, *args: Any, **kwargs: Any) -> Any:
        if name in made._pending:
            made._pending[name].places.append(_place(self, made._scheduled))
        return call_kernel(self, name, *args, **kwargs)

    def lowered(self: Any, node: Any) -> Any:
        made._node = node
        return lower(self, node)

    def generated(self: Any, node: Any) -> Any:
        origins = [
            origin for part in node.get_nodes() for origin in (part.node.origins if part.node is not None else ())
        ]
        made._node = next(iter(origins), made._node)
        return codegen(self, node)

    def broken(self: Any, tx: Any, reason: Any, *args: Any, **kwargs: Any) -> Any:
        if reason.graph_break:
            stack = [(frame.filename, frame.lineno) for frame in reason.user_stack if frame.lineno]
            made.broken.append(Broken(first_line(Exception(reason.reason)), _innermost(stack)))
        return subgraph(self, tx, reason, *args, **kwargs)

    def call(self: Any, model_: Any, inputs_: Any, **options: Any) -> Any:
        if not is_on_mps(model_, inputs_):
            return compiled(self, model_, inputs_, **options)
        made.graphs += 1
        graph = made.graphs - 1
        if isinstance(model_, torch.fx.GraphModule):
            made.lines |= {node.name: line for node in model_.graph.nodes if (line := _line(node)) is not None}
        try:
            return compiled(self, model_, inputs_, **options)
        except Exception as error:
            if isinstance(first := _first(error), UsageError):  # of this machine: a Mac compiles its kernels
                made.not_run = first.message
            else:
                made.refused.append(_refused(graph, first, made._node))
            if not keep_going:
                raise
            return captured(model_.forward if isinstance(model_, torch.nn.Module) else model_)

    replace(MetalScheduling, "define_kernel", defined)
    replace(MetalScheduling, "codegen_node", generated)
    replace(MetalKernel, "call_kernel", called)
    replace(GraphLowering, "run_node", lowered)
    # The wrapper that follows modules is for TorchDynamo what it wraps: begun below it, and left out inside a graph.
    skip_code(torch.nn.Module.__call__.__code__)
    # What C++ asks of Python while a graph is made, and all that this calls, is no part of the program.
    skip: Any = eval_frame._FrameAction.SKIP
    eval_frame.set_code_exec_strategy(answer_c.__code__, eval_frame._FrameExecStrategy(skip, skip))
    replace(nn_module, "unpatched_nn_module_call", torch.nn.Module.__call__)
    # Guards name files by what is left behind the folder that they share with torch: without a letter, if that is `/`.
    replace(_traceback, "shorten_filename", lambda fn, **_base: fn)
    replace(output_graph.OutputGraph, "compile_subgraph", broken)
    replace(wrapper, "__call__", call)
    # Metal's compiler is asked at the end of a graph, and by the program for kernels of its own.
    own: Any = vars(torch._C)["_mps_compileShader"]
    replace(torch._C, "_mps_compileShader", lambda source: shader(made, source) if made.has(source) else own(source))
    # Inductor asks it for the strides of a convolution; it knows MPS in builds for a Mac only.
    format_of: Any = vars(torch._C)["_conv_determine_backend_memory_format"]

    def format_on_mps(x: torch.Tensor, weight: torch.Tensor, backend: Any) -> torch.memory_format:
        last = x.device.type == "mps" and of_images(x, weight)
        return torch.channels_last if last else format_of(x, weight, backend)

    replace(torch._C, "_conv_determine_backend_memory_format", format_on_mps)
    replace(torch._C, "_mps_get_core_count", lambda: torch.backends.mps.get_core_count())
    replace(torch._C, "_mps_get_name", lambda: torch.backends.mps.get_name())
    clear_compilation_metrics()
    with ExitStack() as settings:
        # What a graph is generated into would stay for ever, under the user's name.
        settings.enter_context(_variable("TORCHINDUCTOR_CACHE_DIR", settings.enter_context(TemporaryFolder())))
        # A graph that is kept from another run is not generated again, and other processes would not call back.
        settings.enter_context(torch._inductor.config.patch(force_disable_caches=True, compile_threads=1))
        settings.enter_context(torch._functorch.config.patch(enable_autograd_cache=False))
        yield made


@contextmanager
def _variable(name: str, value: str) -> Iterator[None]:
    before, os.environ[name] = os.environ.get(name), value
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = before


def _origins(nodes: Iterable[Any]) -> tuple[tuple[str, ...], tuple[Line, ...]]:
    """The operators and the lines of the program of the graph's nodes that the scheduler put into one kernel."""
    origins = [origin for node in nodes if getattr(node, "node", None) is not None for origin in node.node.origins]
    origins.sort()
    operators = dict.fromkeys(name for origin in origins if (name := _operator(origin)) is not None)
    lines = dict.fromkeys(line for origin in origins if (line := _line(origin)) is not None)
    return tuple(operators), tuple(lines)


def _place(kernel: MetalKernel, scheduled: Iterable[Any]) -> Place:
    """As ``MetalKernel.call_kernel`` passes them: outputs, inputs, sizes, each by the name of a buffer."""
    graph = V.graph
    placeholders = {node.target: node for node in graph.graph.nodes if node.op == "placeholder"}
    mutated: dict[str, torch.fx.Node | None] = {}
    for part in scheduled:
        for buffer in part.get_outputs() if hasattr(part, "get_outputs") else ():
            if buffer.get_mutations():
                name = graph.scheduler.mutation_real_name.get(buffer.get_name(), buffer.get_name())
                mutated[name] = max(buffer.node.origins, default=None)

    def node_of(name: str) -> torch.fx.Node | None:
        buffer = graph.name_to_buffer.get(name)
        return placeholders.get(name) if buffer is None else buffer.get_origin_node()

    # The node of a buffer that is written over later is what it holds at the end.
    changed = {*graph.scheduler.mutation_real_name.values()} - set(mutated)
    gone = kernel.removed_buffers
    outputs = [name for name in kernel.args.output_buffers if name not in gone]
    inputs = [name for name in kernel.args.input_buffers if name not in gone]
    return Place(
        tuple(
            (mutated[name], True) if name in mutated else (None if name in changed else node_of(name), False)
            for name in outputs
        ),
        tuple(placeholders.get(name) if name in mutated else node_of(name) for name in (*outputs, *inputs)),
        tuple(map(str, kernel.args.sizevars)),
    )


def _operator(node: Any) -> str | None:
    func = node.meta.get("original_aten") or node.target
    if not isinstance(func, torch._ops.OpOverload):
        return None
    return str(func.name()).removesuffix(".default")


def _line(node: Any) -> Line | None:
    frames = _FRAME.findall(node.meta.get("stack_trace") or "") if isinstance(node, torch.fx.Node) else []
    return _innermost([(file, int(line)) for file, line in frames])


def _innermost(frames: list[Line]) -> Line | None:
    """The innermost line of the program: of ``frames``, which begin with the outermost."""
    return next((frame for frame in reversed(frames) if not is_internal(frame[0])), None)


def _first(error: BaseException) -> BaseException:
    """What was raised first, and led to ``error``; or what says so to the user."""
    while (deeper := getattr(error, "inner_exception", None) or error.__cause__) is not None:
        if isinstance(error, UsageError):
            break
        error = deeper
    return error


def _refused(graph: int, inner: BaseException, node: Any) -> Refused:
    """Why Inductor gave up: ``inner`` was raised first."""
    reason = f"{type_name(inner)}: {first_line(inner)}"
    if isinstance(inner, KeyError) and inner.args and isinstance(inner.args[0], torch.dtype):
        reason = f"its generator for Metal has no type for {str(inner.args[0]).removeprefix('torch.')}"
    elif isinstance(inner, NotImplementedError) and not str(inner):
        reason = "its generator for Metal does not have this operation"
    operator = None if not isinstance(node, torch.fx.Node) else _operator(node)
    return Refused(graph, operator, reason, _line(node))


_SOURCE_NODES = re.compile(r"# Topologically Sorted Source Nodes: \[([^\]]*)\]")


def line_of_call(text: Iterable[str], number: int, lines: Mapping[str, Line]) -> Line | None:
    """The program's line behind line ``number`` of a generated wrapper, whose comments name the graph's nodes."""
    for line in reversed(list(text)[:number]):
        nodes = _SOURCE_NODES.search(line)
        if nodes is not None:
            return next((lines[name] for name in nodes[1].split(", ") if name in lines), None)
    return None


def is_generated(file: str) -> bool:
    """Whether a source file is one that Inductor wrote."""
    codecache: Any = sys.modules.get("torch._inductor.codecache")
    return codecache is not None and file.startswith(codecache.cache_dir())
