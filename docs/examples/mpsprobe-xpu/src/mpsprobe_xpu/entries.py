"""The dispatch entries of a ``native_functions.yaml``: which operators have a kernel for which dispatch key."""

from __future__ import annotations

import re
from typing import Any

import yaml
from mpsprobe.errors import TableError

# Both are safe loaders. The file has 16,000 lines: C takes 0.3 s, Python 3 s.
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_UFUNCS = {"CPU", "CUDA"}  # `UFUNC_DISPATCH_KEYS` in torchgen/model.py: it writes these kernels itself
_NAME = re.compile(r"[A-Za-z_]\w*(\.\w+)?(?=\()")


def kernels(text: str, backend: str, where: str) -> dict[str, set[str]]:
    """Dispatch key → operators (``aten::mm.out``), for the keys of ``backend`` (``XPU``, ``SparseXPU``, …).

    An operator with a ``structured_delegate`` has the dense kernel of its delegate: torchgen makes it from that one.

    Raises:
        TableError: ``text`` is no such file; the message says ``where`` it is from.
    """
    try:
        entries = yaml.load(text, Loader=_Loader)
    except yaml.YAMLError as error:
        raise TableError(f"{where} is not YAML: {' '.join(str(error).split())[:200]}") from error
    if not isinstance(entries, list):
        raise TableError(f"{where} is no native_functions.yaml: it holds no list of operators")
    keys: dict[str, set[str]] = {}
    delegates: dict[str, str] = {}
    for number, entry in enumerate(entries, 1):
        name = _NAME.match(str(entry.get("func", ""))) if isinstance(entry, dict) else None
        if name is None:
            raise TableError(f"{where} is no native_functions.yaml: its entry {number} has no 'func'")
        keys[name[0]] = _dispatch_keys(entry.get("dispatch")) | (_UFUNCS if "ufunc_inner_loop" in entry else set())
        if entry.get("structured_delegate"):
            delegates[name[0]] = str(entry["structured_delegate"]).strip()
    found: dict[str, set[str]] = {}
    for name, own in keys.items():
        inherited = {backend} & keys.get(delegates.get(name, ""), set())
        for key in (own | inherited) & {prefix + backend for prefix in ("", "Sparse", "SparseCsr", "NestedTensor")}:
            found.setdefault(key, set()).add(f"aten::{name}")
    return found


def _dispatch_keys(dispatch: Any) -> set[str]:
    """``{"CPU, XPU": "bmm_out"}`` names two keys."""
    return {key.strip() for keys in dispatch or () for key in str(keys).split(",")}
