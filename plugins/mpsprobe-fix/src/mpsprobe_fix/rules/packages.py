"""Packages that need CUDA, and the arguments of Trainer and of models that ask for them."""

from __future__ import annotations

import re

import libcst as cst

from mpsprobe_fix.catalogue import source
from mpsprobe_fix.place import Place, code_of, conditional, for_cuda, lone_call, method, text, with_arguments
from mpsprobe_fix.rule import PACKAGES, rule

# What takes the place of a name of a package: what torch calls it, or a function of the catalogue.
_SAME = {
    "apex.optimizers.FusedAdam": "torch.optim.AdamW",
    "apex.optimizers.FusedSGD": "torch.optim.SGD",
    "apex.normalization.FusedLayerNorm": "torch.nn.LayerNorm",
    "apex.normalization.FusedRMSNorm": "torch.nn.RMSNorm",
    "apex.parallel.DistributedDataParallel": "torch.nn.parallel.DistributedDataParallel",
    "bitsandbytes.optim.Adam8bit": "torch.optim.Adam",
    "bitsandbytes.optim.AdamW8bit": "torch.optim.AdamW",
    "bitsandbytes.optim.PagedAdam8bit": "torch.optim.Adam",
    "bitsandbytes.optim.PagedAdamW8bit": "torch.optim.AdamW",
}
_CODE = {
    "flash_attn.flash_attn_func", "flash_attn.flash_attn_interface.flash_attn_func",
    "flash_attn.flash_attn_qkvpacked_func", "xformers.ops.memory_efficient_attention",
    "xformers.ops.LowerTriangularMask",
}  # fmt: skip


def _stand_in(name: str) -> str | None:
    """What defines the last part of a name without the package."""
    short = name.rpartition(".")[2]
    if name in _CODE:
        return source(short)
    module, _, same = _SAME.get(name, "").rpartition(".")
    return f"from {module} import {same}{f' as {short}' if short != same else ''}\n" if module else None


def _imported(node: cst.SimpleStatementLine, place: Place) -> cst.CSTNode | None:
    """An import of such a package: tried, with what takes its place."""
    if len(node.body) != 1 or place.inside(cst.Try):
        return None
    line = node.body[0]
    if isinstance(line, cst.Import) and len(line.names) == 1:
        full = code_of(line.names[0].name)
        if full.split(".")[0] not in PACKAGES:
            return None
        name = line.names[0].asname.name if line.names[0].asname else cst.Name(full.split(".")[0])
        otherwise = [f"{code_of(name)} = None\n"]
        if full.split(".")[0] in {"triton", "cupy", "tensorrt"}:
            place.decide(f"{full} needs CUDA: its kernels have to be written with PyTorch's operators")
            return None
    elif isinstance(line, cst.ImportFrom) and line.module is not None and not isinstance(line.names, cst.ImportStar):
        module = code_of(line.module)
        if module.split(".")[0] not in PACKAGES or line.relative:
            return None
        otherwise = []
        for alias in line.names:
            of, bound = code_of(alias.name), alias.evaluated_alias or code_of(alias.name)
            stand_in = _stand_in(f"{module}.{of}")
            if stand_in is None and len(re.findall(rf"\b{bound}\b", place.program.code)) > 1:
                place.decide(f"{module}.{of} needs CUDA: write what it does with PyTorch's operators")
            otherwise.append(stand_in or f"{bound} = None\n")
            if stand_in and bound != of:
                otherwise.append(f"{bound} = {of}\n")
    else:
        return None
    assert place.torch
    attempt = cst.IndentedBlock([node.with_changes(leading_lines=[])])
    instead = [statement for code in otherwise for statement in cst.parse_module(code).body]
    handler = cst.ExceptHandler(cst.IndentedBlock(instead), cst.Name("ImportError"))
    return cst.Try(attempt, [handler], leading_lines=node.leading_lines)


def _enabled(node: cst.SimpleStatementLine, place: Place) -> cst.CSTNode | None:
    """``pipe.enable_xformers_memory_efficient_attention()`` of diffusers: elsewhere it has torch's attention."""
    call = lone_call(node)
    return for_cuda(node, place) if call and method(call, "enable_xformers_memory_efficient_attention") else None


def _used(call: cst.Call, place: Place) -> cst.CSTNode | None:
    """``bnb.optim.AdamW8bit(…)``, ``xformers.ops.memory_efficient_attention(…)``"""
    name = place.qualified(call.func)
    if name.split(".")[0] not in PACKAGES or isinstance(call.func, cst.Name):
        return None
    if name in _SAME:
        chosen = f"{code_of(call.func)} if {place.has_cuda()} else {place.torch}{_SAME[name].removeprefix('torch')}"
        return call.with_changes(func=cst.parse_expression(f"({chosen})"))
    if name == "xformers.ops.memory_efficient_attention":
        place.head("memory_efficient_attention")
        chosen = f"{code_of(call.func)} if {place.has_cuda()} else memory_efficient_attention"
        return call.with_changes(func=cst.parse_expression(f"({chosen})"))
    if name == "xformers.ops.LowerTriangularMask":
        return conditional(code_of(call), "True", place, call)
    place.decide(f"{name} needs CUDA")
    return None


rule(
    "cuda-package",
    "flash-attn, xformers, apex and older bitsandbytes install with CUDA only; torch has the same attention and "
    "optimizers.",
    "import torch\nfrom apex.optimizers import FusedAdam\n",
    "import torch\ntry:\n    from apex.optimizers import FusedAdam\n"
    "except ImportError:\n    from torch.optim import AdamW as FusedAdam\n",
    (_imported, _enabled, _used),
)

# Arguments of transformers' Trainer, its models and accelerate: what they may not be without CUDA, and what instead.
_ADAMW = ("adamw_bnb_8bit", "adamw_8bit", "paged_adamw_8bit", "paged_adamw_32bit", "adamw_apex_fused")
_VALUES = {
    **{("optim", name): '"adamw_torch"' for name in _ADAMW},
    ("attn_implementation", "flash_attention_2"): '"sdpa"',
    ("attn_implementation", "flash_attention_3"): '"sdpa"',
    ("tf32", "True"): "None",
    ("use_flash_attention_2", "True"): "False",
}
_DECIDE = {"load_in_8bit", "load_in_4bit", "deepspeed"}


def _arguments(call: cst.Call, place: Place) -> cst.CSTNode | None:
    for argument in call.args:
        if (
            argument.keyword is not None
            and argument.keyword.value in _DECIDE
            and code_of(argument.value) not in {"False", "None"}
        ):
            place.decide(f"{argument.keyword.value} needs CUDA or a library with kernels for it")

    def changed(keyword: str, value: cst.BaseExpression) -> cst.BaseExpression | None:
        instead = _VALUES.get((keyword, text(value) or code_of(value)))
        return conditional(code_of(value), instead, place, value, argument=True) if instead else None

    return with_arguments(call, changed)


rule(
    "trainer-argument",
    "Some attentions, optimizers and number formats of transformers need CUDA.",
    "import torch\nfrom transformers import TrainingArguments\n\n"
    "settings = TrainingArguments(optim='adamw_bnb_8bit')\n",
    "import torch\nfrom transformers import TrainingArguments\n\n"
    "settings = TrainingArguments(optim='adamw_bnb_8bit' if torch.cuda.is_available() else \"adamw_torch\")\n",
    (_arguments,),
)
