"""Rewrites of operators that some release has no kernel for: what they are, as data; the code is in ``functions.py``.

Each function gives the numbers and gradients of the one that it takes the place of, from operators that are native on
the releases where that is missing; tests compare both on the CPU and ask the kernel tables. On other devices than MPS
the original is called.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cache
from importlib import resources


@dataclass(frozen=True)
class Rewrite:
    """Attributes:
    name: of the function that is put at the head of a file.
    operators: what a release refuses, as ``mpsprobe kernels`` writes it.
    functions: how programs call it.
    methods: the same as a method of a tensor.
    """

    name: str
    operators: frozenset[str]
    functions: frozenset[str]
    methods: frozenset[str] = frozenset()

    @property
    def code(self) -> str:
        """The source of the function, with the other functions that it calls before it."""
        sources = _sources()
        called = [name for name in sources if name != self.name and f"{name}(" in sources[self.name].split(":\n", 1)[1]]
        return "\n\n\n".join(sources[name] for name in [*called, self.name])


@cache
def _sources() -> dict[str, str]:
    """The source of each function, by its name."""
    text = resources.files(__package__).joinpath("functions.py").read_text(encoding="utf-8")
    functions = [one for one in ast.parse(text).body if isinstance(one, ast.FunctionDef)]
    return {one.name: ast.get_source_segment(text, one) or "" for one in functions}


def _entry(name: str, operators: str, functions: str, methods: str = "") -> Rewrite:
    names = frozenset(f"aten::{one}" for one in operators.split())
    return Rewrite(name, names, frozenset(functions.split()), frozenset(methods.split()))


REWRITES = (
    _entry("grid_sample", "grid_sampler_2d grid_sampler_2d_backward", "torch.nn.functional.grid_sample"),
    _entry(
        "interpolate_antialias",
        "_upsample_bilinear2d_aa.out _upsample_bilinear2d_aa _upsample_bilinear2d_aa_backward.grad_input "
        "_upsample_bicubic2d_aa.out _upsample_bicubic2d_aa _upsample_bicubic2d_aa_backward.grad_input",
        "torch.nn.functional.interpolate",
    ),
    _entry("ctc_loss", "_ctc_loss _ctc_loss_backward", "torch.nn.functional.ctc_loss"),
    _entry("index_copy", "index_copy.out index_copy", "torch.index_copy", "index_copy"),
    _entry("cummax", "_cummax_helper", "torch.cummax", "cummax"),
    _entry("cummin", "_cummin_helper", "torch.cummin", "cummin"),
    _entry("fold", "col2im", "torch.nn.functional.fold"),
    _entry("embedding_bag", "_embedding_bag _embedding_bag_backward", "torch.nn.functional.embedding_bag"),
    _entry(
        "adaptive_avg_pool2d",
        "_adaptive_avg_pool2d _adaptive_avg_pool2d_backward",
        "torch.nn.functional.adaptive_avg_pool2d",
    ),
    _entry("grouped_mm", "_grouped_mm", "torch._grouped_mm torch.nn.functional.grouped_mm"),
    _entry(
        "scaled_dot_product_attention",
        "_scaled_dot_product_attention_math_for_mps all.dim",
        "torch.nn.functional.scaled_dot_product_attention",
    ),
    _entry("vector_norm", "linalg_vector_norm", "torch.linalg.vector_norm torch.linalg.norm"),
    _entry("clip_grad_norm_", "linalg_vector_norm", "torch.nn.utils.clip_grad_norm_"),
)
