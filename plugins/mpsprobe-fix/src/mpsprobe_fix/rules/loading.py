"""Data and processes: pinned memory, workers that macOS starts anew, process groups."""

from __future__ import annotations

import libcst as cst
import libcst.matchers as m

from mpsprobe_fix.place import (  # isort: skip
    Place, argument, called, code_of, conditional, expression, method, name_of, receiver, text, with_arguments,
    with_value,
)  # fmt: skip
from mpsprobe_fix.rule import rule

_PLATFORM = 'sys.platform == "darwin"'
# What a DataLoader takes for its workers, and its value without.
_OF_WORKERS = {
    "num_workers": "0", "prefetch_factor": "None", "persistent_workers": "False", "timeout": "0",
    "multiprocessing_context": "None",
}  # fmt: skip
_PINS = {"pin_memory", "dataloader_pin_memory"}


def _pinned(call: cst.Call, place: Place) -> cst.CSTNode | None:
    """``pin_memory=True``, ``x.pin_memory()``"""
    if method(call, "pin_memory") and not call.args:
        return conditional(code_of(call), code_of(receiver(call)), place, call)

    def changed(keyword: str, value: cst.BaseExpression) -> cst.BaseExpression | None:
        return expression(place.has_cuda()) if keyword in _PINS and code_of(value) == "True" else None

    return with_arguments(call, changed)


def _pinned_entry(node: cst.DictElement, place: Place) -> cst.CSTNode | None:
    """``{"pin_memory": True}``"""
    if text(node.key) not in _PINS or code_of(node.value) != "True":
        return None
    return node.with_changes(value=expression(place.has_cuda()))


rule(
    "pin-memory",
    "Memory is pinned for copies to CUDA; the GPU and the CPU of a Mac share theirs, and a DataLoader warns.",
    "import torch\n\nloader = torch.utils.data.DataLoader([1, 2], pin_memory=True)\n",
    "import torch\n\nloader = torch.utils.data.DataLoader([1, 2], pin_memory=torch.cuda.is_available())\n",
    (_pinned, _pinned_entry),
)


def _workers(call: cst.Call, place: Place) -> cst.CSTNode | None:
    """Workers that get what cannot be sent to a new process, or that would run the script again."""
    if called(call) != "DataLoader":
        return None
    given = argument(call, "num_workers")
    if given is None or "darwin" in code_of(given.value) or code_of(given.value) == "0":
        return None
    if not any(_cannot_be_sent(passed.value, place) for passed in call.args) and not _runs_again(place):
        return None
    place.head("sys", "import sys")

    def changed(keyword: str, value: cst.BaseExpression) -> cst.BaseExpression | None:
        without = _OF_WORKERS.get(keyword)
        return expression(f"{without} if {_PLATFORM} else {code_of(value)}") if without else None

    return with_arguments(call, changed)


def _cannot_be_sent(node: cst.BaseExpression, place: Place) -> bool:
    """Whether an argument is a lambda, has one, or is a function that is defined inside another one."""
    return bool(m.findall(node, m.Lambda())) or (isinstance(node, cst.Name) and node.value in place.inner)


def _runs_again(place: Place) -> bool:
    """Whether the loader is made while the script is imported: a new process imports it."""
    if any(isinstance(node, cst.If) and "__name__" in code_of(node.test) for node in place.around):
        return False
    outer = next((node for node in place.around if isinstance(node, (cst.FunctionDef, cst.ClassDef))), None)
    return outer is None or outer.name.value in place.at_import


rule(
    "spawned-workers",
    "macOS starts workers anew (spawn): lambdas and inner functions cannot be sent, and a script without a main guard "
    "would run again in each.",
    "import torch\n\nloader = torch.utils.data.DataLoader([1, 2], num_workers=2, collate_fn=lambda batch: batch)\n",
    "import torch\nimport sys\n\n"
    "loader = torch.utils.data.DataLoader("
    '[1, 2], num_workers=0 if sys.platform == "darwin" else 2, collate_fn=lambda batch: batch)\n',
    (_workers,),
    everywhere=True,
)


def _group(call: cst.Call, place: Place) -> cst.CSTNode | None:
    """``init_process_group("nccl")`` and what wraps a model for it"""
    name = called(call)
    if name == "init_process_group":
        backend = argument(call, "backend", 0)
        if backend is None or text(backend.value) != "nccl":
            return None
        return with_value(call, backend, f'"nccl" if {place.has_cuda()} else "gloo"')
    if name in {"DistributedDataParallel", "DDP", "barrier"}:
        if name != "barrier":
            place.decide("gloo, the backend on a Mac, takes tensors of the CPU: wrap the model for several GPUs only")

        def changed(keyword: str, value: cst.BaseExpression) -> cst.BaseExpression | None:
            code = code_of(value)
            if keyword not in {"device_ids", "output_device"} or "is_available" in code or code == "None":
                return None
            return expression(f"{code} if {place.has_cuda()} else None")

        return with_arguments(call, changed)
    return None


def _count(call: cst.Call, place: Place) -> cst.CSTNode | None:
    """``n = torch.cuda.device_count()``, of which so many processes are started: a Mac has one device."""
    parent = place.parent()
    asked = isinstance(parent, cst.Assign) and name_of(parent.targets[0].target) in place.facts.processes
    asked = asked or (isinstance(parent, cst.Arg) and parent.keyword is not None and parent.keyword.value == "nprocs")
    counts = place.qualified(call.func) == "torch.cuda.device_count"
    return expression(f"max({code_of(call)}, 1)", call) if asked and counts else None


rule(
    "process-group",
    "nccl is CUDA's; a Mac has one GPU, and DataParallel passes its model through there.",
    'import torch\n\ntorch.distributed.init_process_group("nccl")\n',
    'import torch\n\ntorch.distributed.init_process_group("nccl" if torch.cuda.is_available() else "gloo")\n',
    (_group, _count),
)
