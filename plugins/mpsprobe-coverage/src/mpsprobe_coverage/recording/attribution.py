"""Whose call is it: the module and the source line behind an operator call, in backward too.

In the forward pass the innermost module whose ``__call__`` is running owns the call, and the line is
the innermost one outside torch and mpsprobe. In the backward pass no module runs: there the call
belongs to the module and line whose forward made the autograd node, found by the node's sequence
number (``torch.autograd._get_sequence_nr`` before, ``Node._sequence_nr()`` after).

Threads have their own modules and, in PyTorch, their own sequence numbers: two threads number their nodes alike. A node
knows whose it is and tells C++ alone, so a device in C++ asks it (``ask_for_threads``). Where nobody does and two
threads have nodes of one number, only what is the same for both is known.
"""

from __future__ import annotations

import os
import sys
import threading
import weakref
from collections.abc import Callable
from types import FrameType
from typing import Any, NamedTuple

import torch

from mpsprobe import stepping

_get_sequence_nr: Callable[[], int] = torch.autograd._get_sequence_nr  # type: ignore[attr-defined]
_current_node: Callable[[], Any] = torch._C._current_autograd_node
_INTERNAL = (
    os.path.dirname(torch.__file__) + os.sep,  # noqa: PTH120 - compared with co_filename, a plain string
    os.path.dirname(os.path.dirname(__file__)) + os.sep,  # noqa: PTH120
    "<",
)
# Above its frames is the program that scans, not the one that is scanned.
_SCANNER = stepping.__file__


class _Internal(dict[str, bool]):
    def __missing__(self, file: str) -> bool:
        generated = os.environ.get("TORCHINDUCTOR_CACHE_DIR") or "<"
        internal = self[file] = file.startswith((*_INTERNAL, generated))
        return internal


_internal = _Internal()


def is_internal(file: str) -> bool:
    """Whether a source file belongs to torch or mpsprobe, or is none, or generated."""
    return _internal[file]


class Origin(NamedTuple):
    module: str | None  # the qualified name; "" for the root, None outside every module
    file: str | None
    line: int  # 0: unknown


NOWHERE = Origin(None, None, 0)
NODES_KEPT = 2**17
"""Autograd nodes of one thread, the latest, whose origins are known; a large model's step makes some ten thousand."""
THREADS_KEPT = 16
"""Threads whose nodes are kept, though the thread may have ended; those that run are kept whatever their number."""


class _Running:
    """Lives as long as its thread; identifiers of threads are used again."""


class _Thread(threading.local):
    """What one thread runs: ``stack`` has the names of the modules around it, ``nodes`` the origins of its latest."""

    def __init__(self) -> None:
        self.stack: list[str | None] = []
        self.running = _Running()
        self.nodes = _Nodes(self.running)


class _Nodes:
    """The origins of one thread's autograd nodes, from the sequence number ``first`` on."""

    def __init__(self, running: _Running) -> None:
        self.thread = weakref.ref(running)
        self.identifier: int | None = None  # as PyTorch has it
        self.first = 0
        self.origins: list[Origin] = []

    def made(self, count: int, origin: Origin) -> None:
        new = count - self.first - len(self.origins)
        if new > NODES_KEPT:
            self.first, self.origins, new = count - NODES_KEPT, [], NODES_KEPT
        self.origins.extend([origin] * new)
        if len(self.origins) > 2 * NODES_KEPT:
            del self.origins[:NODES_KEPT]
            self.first += NODES_KEPT

    def origin(self, number: int) -> Origin | None:
        position = number - self.first
        return self.origins[position] if 0 <= position < len(self.origins) else None


class Attribution:
    """Follows modules and autograd nodes while it is open (``with``)."""

    def __init__(self) -> None:
        self._names: dict[int, str] = {}
        self._threads: list[_Nodes] = []
        self._thread = _Thread()
        self._places: dict[Origin, Origin] = {}
        self._alive: dict[int, weakref.ref[torch.nn.Module]] = {}
        self._root_called: Callable[[torch.nn.Module], None] | None = None
        self._thread_now: Callable[[], int] | None = None
        self._thread_of_node: Callable[[], int] | None = None
        self.deepest_module: str | None = None  # where the first exception to leave a module was raised

    def name_modules(self, model: torch.nn.Module) -> None:
        self._model = model  # keeps the ids alive
        self._names = {id(module): name for name, module in model.named_modules()}

    def follow_program(self, root_called: Callable[[torch.nn.Module], None]) -> None:
        """From now on modules are named as they are called: a root by its class, those inside it by class and path.

        ``root_called`` gets each module that is called outside of all others, at each of its calls.
        """
        self._root_called = root_called

    def ask_for_threads(self, now: Callable[[], int], of_node: Callable[[], int]) -> None:
        """Know from now on which thread made a node, by PyTorch's numbers of threads (``Node::thread_id`` in C++)."""
        self._thread_now, self._thread_of_node = now, of_node

    def name_of(self, module: torch.nn.Module) -> str | None:
        return self._names.get(id(module))

    def __enter__(self) -> Attribution:
        thread = self._thread
        original: Any = torch.nn.Module.__call__

        def call(module: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
            if torch.compiler.is_dynamo_compiling():  # a graph has no part of this, and no guard for it
                return original(module, *args, **kwargs)
            stack = thread.stack
            if not stack and self._root_called is not None:
                if id(module) not in self._names:
                    self._name_inside(module)
                self._root_called(module)
            stack.append(self._names.get(id(module), stack[-1] if stack else None))
            try:
                return original(module, *args, **kwargs)
            except Exception:
                if self.deepest_module is None:
                    self.deepest_module = stack[-1]
                raise
            finally:
                stack.pop()

        self._original_call = original
        torch.nn.Module.__call__ = call  # type: ignore[method-assign]
        return self

    def __exit__(self, *_exc: object) -> None:
        torch.nn.Module.__call__ = self._original_call  # type: ignore[method-assign]

    def current(self) -> Origin:
        thread = self._thread
        stack = thread.stack
        if not stack:
            node = _current_node()
            if node is not None:
                return self._of_node(node._sequence_nr())
        frame = self.frame()
        file, line = (None, 0) if frame is None else (frame.f_code.co_filename, frame.f_lineno)
        origin = Origin(stack[-1] if stack else None, file, line)
        nodes, count = thread.nodes, _get_sequence_nr()
        if count > nodes.first + len(nodes.origins):
            if not nodes.origins:
                self._keep(nodes)
            nodes.made(count, self._places.setdefault(origin, origin))
        return origin

    def _name_inside(self, root: torch.nn.Module) -> None:
        """Name the modules of ``root`` that have no name; they lose it when they die, as another may get their ids."""
        kind = type(root).__name__
        for path, module in root.named_modules():
            key = id(module)
            if key not in self._names:
                self._names[key] = f"{kind}.{path}" if path else kind
                self._alive[key] = weakref.ref(module, lambda _, key=key: self._forget(key))  # type: ignore[misc]

    def _forget(self, key: int) -> None:
        del self._names[key], self._alive[key]

    def _keep(self, nodes: _Nodes) -> None:
        """Keep what this thread, new here, is about to make; of many the first that ended is forgotten."""
        if self._thread_now is not None:
            nodes.identifier = self._thread_now()
        self._threads.append(nodes)
        if len(self._threads) > THREADS_KEPT:
            ended = next((thread for thread in self._threads if thread.thread() is None), None)
            if ended is not None:
                self._threads.remove(ended)

    def _of_node(self, number: int) -> Origin:
        threads = self._threads
        if self._thread_of_node is not None:
            whose = self._thread_of_node()
            threads = [thread for thread in threads if thread.identifier == whose]
        origins = {origin for nodes in threads if (origin := nodes.origin(number)) is not None}
        if len(origins) == 1:
            return origins.pop()
        modules, places = {origin.module for origin in origins}, {(origin.file, origin.line) for origin in origins}
        module = modules.pop() if len(modules) == 1 else None
        return Origin(module, *places.pop()) if len(places) == 1 else Origin(module, None, 0)

    def mark(self, tensor: Any) -> None:
        """Write the line that runs now into ``tensor``, as the one that made it, if nothing else did."""
        if not hasattr(tensor, "made_at"):
            frame = self.frame()
            if frame is not None:
                tensor.made_at = (frame.f_code.co_filename, frame.f_lineno)

    @staticmethod
    def frame() -> FrameType | None:
        """That of the innermost line outside torch and mpsprobe."""
        frame, internal = sys._getframe(1).f_back, _internal
        while frame is not None:
            file = frame.f_code.co_filename
            if file == _SCANNER:
                break
            if not internal[file]:
                return frame
            frame = frame.f_back
        return None
