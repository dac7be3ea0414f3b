"""Sees which heavy packages are imported, and by which chain of files."""

from __future__ import annotations

import sys
from typing import Any

from mpsprobe_devkit.checking.child.telling import Teller

HEAVY = frozenset({
    "IPython", "PIL", "accelerate", "capstone", "cv2", "dask", "datasets", "diffusers", "flax", "gradio", "hypothesis",
    "jax", "keras", "lief", "lightning", "matplotlib", "mlx", "numba", "numpy", "onnx", "onnxruntime", "pandas",
    "plotly", "polars", "pyarrow", "pydantic", "pytest", "rich", "scipy", "seaborn", "sentence_transformers", "sklearn",
    "streamlit", "sympy", "tensorboard", "tensorflow", "tokenizers", "torch", "torchaudio", "torchvision",
    "transformers", "triton", "wandb", "xarray",
})  # fmt: skip
"""Packages that take tens of milliseconds or more to import. What is not here and takes long is found by the clock."""


class Recorder:
    """A finder that finds nothing and writes down who asked. Stands first in ``sys.meta_path``."""

    def __init__(self, teller: Teller) -> None:
        self._teller = teller
        self._chains: dict[str, tuple[str, str]] = {}

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        """Called by the import system for each module that is not imported yet."""
        if name in HEAVY and name not in self._chains:
            self._chains[name] = self._chain(name)

    def heavy(self) -> dict[str, tuple[str, str]]:
        """(chain of who imported it, the plugin's own line) of each package that was imported since the last question.

        What another heavy package brought is left out (it goes when that one does), and what the plugin had no part in.
        """
        found = {name: chain for name, chain in self._chains.items() if name in sys.modules and chain[1]}
        self._chains = dict.fromkeys(self._chains, ("", ""))
        return found

    def asked(self, name: str) -> tuple[str, str] | None:
        """The chain for a package that was asked for and is not installed."""
        return self._chains.get(name)

    def _chain(self, name: str) -> tuple[str, str]:
        frames: list[str] = []
        own = ""
        frame: Any = sys._getframe(2)
        while frame is not None:
            file = frame.f_code.co_filename
            module = str(frame.f_globals.get("__name__", ""))
            if module.startswith(
                ("mpsprobe_devkit.checking.child", "mpsprobe.plugins.loading")
            ):  # who loads the plugin
                break
            if module.partition(".")[0] in HEAVY - {name}:
                return "", ""
            if not file.startswith("<frozen") and module.partition(".")[0] != "importlib":
                place = f"{self._teller.shown(file)}:{frame.f_lineno}"
                if not frames or frames[-1] != place:
                    frames.append(place)
                if self._teller.is_own(file):
                    own = place
            frame = frame.f_back
        return " → ".join([*reversed(frames), name]), own
