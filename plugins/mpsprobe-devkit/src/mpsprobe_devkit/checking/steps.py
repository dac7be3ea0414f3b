"""How the child tells what it finds, step by step, so that an end in the middle of one can be recognised."""

from __future__ import annotations

import contextlib
import faulthandler
import inspect
import json
import os
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from mpsprobe_devkit.checking.codes import finding

HEAVY = frozenset({
    "IPython", "PIL", "accelerate", "cv2", "dask", "datasets", "diffusers", "flax", "gradio", "hypothesis", "jax",
    "keras", "lightning", "matplotlib", "mlx", "numba", "numpy", "onnx", "onnxruntime", "pandas", "plotly", "polars",
    "pyarrow", "pydantic", "pytest", "rich", "scipy", "seaborn", "sentence_transformers", "sklearn", "streamlit",
    "sympy", "tensorboard", "tensorflow", "tokenizers", "torch", "torchaudio", "torchvision", "transformers", "triton",
    "wandb", "xarray",
})  # fmt: skip
"""Packages that take tens of milliseconds or more to import. What is not here and takes long is found by the clock."""


class Steps:
    """Writes events to ``events.jsonl``, line by line, and watches the time, the output and the imports of each step.

    Args:
        folder: of this child.
        root: the folder that places are relative to.
        own: folders or files of the plugin.
    """

    def __init__(self, folder: Path, root: str, own: list[str]) -> None:
        self._root, self._own = Path(root), tuple(own)
        self._events, self._output = folder / "events.jsonl", folder / "output.txt"
        self._trace = (folder / "trace.txt").open("w", encoding="utf-8")
        self._asked: dict[str, list[str]] = {}
        sys.meta_path.insert(0, self)  # a finder that finds nothing and sees who asks
        faulthandler.enable(self._trace)

    def tell(self, **event: Any) -> None:
        """Append one event. The file is opened each time: a plugin may close every descriptor that it finds."""
        with self._events.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(event) + "\n")

    def found(self, code: str, message: str, where: str = "", hint: str | None = None) -> None:
        """Tell a finding."""
        self.tell(finding=finding(code, message, where, hint).as_dict())

    @contextlib.contextmanager
    def step(self, doing: str, limit: float, *, loads: bool = False, where: str = "") -> Iterator[SimpleNamespace]:
        """Inside, code of the plugin runs; gives how many ``seconds``.

        After ``limit`` seconds the process ends, and the trace says where it was.

        Args:
            loads: whether it is a part of loading: then it may neither print nor import what is heavy.
        """
        step, begin, started = SimpleNamespace(seconds=0.0), self._size(), time.perf_counter()
        self._asked.clear()
        self.tell(begin=doing, where=where, limit=limit)
        faulthandler.dump_traceback_later(limit, exit=True, file=self._trace)
        yield step
        faulthandler.cancel_dump_traceback_later()
        step.seconds = time.perf_counter() - started
        if loads and self._size() > begin:
            text = self._output.read_bytes()[begin : begin + 1000].decode("utf-8", "replace").strip()
            self.found("prints", f"{doing} prints '{text.splitlines()[0]}'", where)
        for name, places in self._asked.items() if loads else ():
            if places:
                self.found("heavy-import", f"{doing} imports {name}: {' → '.join([*places, name])}", places[0])

    def _size(self) -> int:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        return self._output.stat().st_size

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        """Called by the import system for each module that is not imported yet: note the plugin's lines that led here.

        What another heavy package brings is left out (it goes when that one does).
        """
        if name in HEAVY and name not in self._asked:
            frames = [one for one, _ in traceback.walk_stack(None)][1:]
            modules = {str(one.f_globals.get("__name__", "")).partition(".")[0] for one in frames}
            files = [(one.f_code.co_filename, one.f_lineno) for one in reversed(frames)]
            lines = [f"{self.shown(file)}:{line}" for file, line in files if self._is_own(file)]
            self._asked[name] = [] if modules & (HEAVY - {name}) else list(dict.fromkeys(lines))

    def _is_own(self, path: str) -> bool:
        path = os.path.realpath(path)
        return any(path in (one, f"{one}.py") or path.startswith(one + os.sep) for one in self._own)

    def shown(self, path: str) -> str:
        """``path`` relative to the plugin's folder where it lies in there."""
        with contextlib.suppress(ValueError):
            return Path(path).resolve().relative_to(self._root.resolve()).as_posix() if path else ""
        return Path(path).name

    def place(self, value: Any) -> str:
        """``file:line`` of a function, empty where that is not known."""
        code = getattr(inspect.unwrap(value), "__code__", None)
        return f"{self.shown(code.co_filename)}:{code.co_firstlineno}" if code else ""

    def place_of_object(self, made: Any) -> str:
        """``file:line`` of the class of an object, or of the function of a command."""
        kind = getattr(made, "callback", None) or type(made)
        with contextlib.suppress(OSError, TypeError):
            return f"{self.shown(inspect.getfile(kind))}:{inspect.getsourcelines(kind)[1]}"
        return ""

    def place_of_error(self, error: BaseException | None) -> str:
        """``file:line`` of the plugin's own line that raised, or called what raised."""
        if isinstance(error, SyntaxError) and error.filename:
            return f"{self.shown(error.filename)}:{error.lineno or 1}"
        frames = traceback.extract_tb(error.__traceback__) if error is not None else []
        own = [f"{self.shown(one.filename)}:{one.lineno}" for one in frames if self._is_own(one.filename)]
        return own[-1] if own else ""
