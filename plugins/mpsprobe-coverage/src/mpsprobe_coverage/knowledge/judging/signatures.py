"""What a list of PyTorch's tests can tell calls of one operator apart by: dtypes, and arguments that choose a way.

A signature is the dtypes that a call reads, each once and in order; after ``>`` those that it returns besides; after
``with`` its *flags*: arguments of truth values and of names that are not what the schema has as default, in the
schema's order (``int64``, ``int64>float32``, ``int64 with accumulate``, ``int8 with reduce=amax, include_self=False``).
A kernel often has code of its own for such an argument: ``index_put`` took every whole number for years before it could
add them up. Numbers (``dim``, ``p``), sizes and values are in no signature.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from mpsprobe_coverage.knowledge.calls.call import Call
from mpsprobe_coverage.knowledge.calls.spec import TensorSpec, dtype_name

_WITH, _AND = " with ", ", "


def signature(inputs: Iterable[str], outputs: Iterable[str], flags: Sequence[str] = ()) -> str:
    """Names of dtypes, and what ``flags_of`` gives → the signature of a call that has them."""
    read = tuple(dict.fromkeys(inputs))
    returned = tuple(dict.fromkeys(name for name in outputs if name not in read))
    dtypes = f"{' '.join(read)}>{' '.join(returned)}" if returned else " ".join(read)
    return f"{dtypes}{_WITH}{_AND.join(flags)}" if flags else dtypes


def signature_of(call: Call) -> str:
    """The signature of ``call``."""
    return signature(_names(call.inputs), _names(call.outputs), flags_of(call.func, call.args, call.kwargs))


def dtypes_of(call: Call) -> str:
    """The signature of ``call`` without flags."""
    return signature(_names(call.inputs), _names(call.outputs))


def without_flags(signature: str) -> str:
    """The part of a signature that tells dtypes."""
    return signature.partition(_WITH)[0]


def dtypes_in(signature: str) -> list[str]:
    """The names of dtypes in a signature, those that are read first."""
    return without_flags(signature).replace(">", " ").split()


def flags_of(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[str, ...]:
    """The flags of a call, as they stand in a signature: ``accumulate``, ``sorted=False``, ``reduce=amax``.

    Where the schema has no default, False and None are taken for it. Names are percent-encoded.
    """
    flags = []
    for position, name, default in _arguments(func):
        value = kwargs[name] if name in kwargs else args[position] if position < len(args) else default
        if isinstance(value, str):
            if value != default:
                flags.append(f"{name}={quote(value, safe='')}")
        elif isinstance(default, str):
            flags.append(f"{name}=None")
        elif bool(value) != bool(default):
            flags.append(name if value else f"{name}=False")
    return tuple(flags)


@functools.cache
def _arguments(func: Any) -> tuple[tuple[int, str, bool | str | None], ...]:
    """Position, name and default of the arguments that can be flags."""
    flags = {str(kind) for inner in ("bool", "str") for kind in (inner, f"Optional[{inner}]")}
    return tuple(
        (position, argument.name, argument.default_value)
        for position, argument in enumerate(func._schema.arguments)
        if str(argument.type) in flags
    )


def _names(specs: Iterable[TensorSpec]) -> tuple[str, ...]:
    return tuple(dtype_name(spec.dtype) for spec in specs)
