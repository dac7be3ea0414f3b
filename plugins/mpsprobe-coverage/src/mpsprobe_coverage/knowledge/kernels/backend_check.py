"""Whether what a plugin says about its backend is what the protocol asks for; every problem is an error of its own.

``fail`` takes the problem, in words that follow "the backend 'xpu' of mpsprobe-xpu 0.1", and raises.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from mpsprobe.protocols import Backend, BackendKernels
from mpsprobe.suggestions import an, nearest, printable
from mpsprobe_coverage.knowledge.kernels.table import tensor_keys

Fail = Callable[[str], Any]
OPERATOR = re.compile(r"[A-Za-z_]\w*::[A-Za-z_]\w*(\.\w+)?", re.ASCII)
WITHOUT_KERNEL = ("raises", "cpu")
LONGEST = 200  # characters of a name


def backend(given: Any, fail: Fail) -> Backend:
    """``given`` if it is a ``Backend`` that can be; its label filled in."""
    if type(given) is not Backend:
        fail(f"has {an(type(given).__name__)} as its backend, not a Backend")
    for field in ("device", "key", "label"):
        if not isinstance(getattr(given, field), str):
            fail(f"has {an(type(getattr(given, field)).__name__)} as the {field} of its backend, not a str")
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,40}", given.device):
        fail(f"has the device type '{printable(given.device)[:40]}', which is none that torch.device takes")
    if not re.fullmatch(r"[A-Z][A-Za-z0-9]{0,40}", given.key):
        fail(f"has the dispatch key '{printable(given.key)[:40]}', which is none of torch's (XPU, PrivateUse1, …)")
    if given.without_kernel not in WITHOUT_KERNEL:
        fail("says what it does without a kernel in a word that is neither 'raises' nor 'cpu'")
    if given.variable is not None and not re.fullmatch(r"[A-Z][A-Z0-9_]*(=\S+)?", str(given.variable)):
        fail(f"has '{printable(str(given.variable))[:40]}' as its variable, which is not of the form NAME=VALUE")
    label = printable(given.label)[:40] or given.key
    labelled: Backend = dataclasses.replace(given, label=label)
    return labelled


def kernels(given: Any, release: str, of: Backend, fail: Fail) -> BackendKernels:
    """``given`` if it is the table of ``release``, with every operator's name as mpsprobe writes it."""
    what = f"its table of torch {release}"
    if type(given) is not BackendKernels:
        fail(f"gives {an(type(given).__name__)} as {what}, not a BackendKernels")
    if given.release != release:
        fail(f"gives the table of torch '{printable(str(given.release))[:40]}' as {what}")
    if not isinstance(given.kernels, Mapping):
        fail(f"has {an(type(given.kernels).__name__)} as the kernels of {what}, not a mapping of dispatch keys")
    known = [*tensor_keys(of.key), *(f"{before}{of.key}" for before in ("Autocast", "Autograd", "Quantized"))]
    known.append(f"NestedTensor{of.key}")
    for key in given.kernels:
        if key not in known:
            near = nearest(str(key), known, count=1)
            did_you_mean = f"; did you mean '{near[0]}'?" if near else f": they are {', '.join(known)}"
            fail(f"has the dispatch key '{printable(str(key))[:40]}' in {what}, which is none of its{did_you_mean}")
    named = {key: operators(listed, f"under {key} in {what}", fail) for key, listed in given.kernels.items()}
    fallback = operators(given.fallback, f"among the fallbacks of {what}", fail)
    if not named.get(of.key) and not fallback:
        fail(f"has no operator under {of.key} in {what}: no tensor could be made there")
    for field, right in (("source", str), ("sha256", str), ("whole", bool)):
        if not isinstance(getattr(given, field), right):
            fail(f"has {an(type(getattr(given, field)).__name__)} as the {field} of {what}, not {an(right.__name__)}")
    if not given.source.strip():
        fail(f"does not say what {what} was read from (its source)")
    if given.sha256 and not re.fullmatch(r"[0-9a-f]{64}", given.sha256):
        fail(f"has a sha256 in {what} that is none: 64 hexadecimal digits")
    return BackendKernels(
        release=release,
        kernels=named,
        source=printable(given.source),
        sha256=given.sha256,
        whole=given.whole,
        fallback=fallback,
        raising=operators(given.raising, f"among those that raise in {what}", fail),
        refused_dtypes=_dtypes(given.refused_dtypes, what, fail),
        notes=_texts(given.notes, what, fail),
    )


def operators(given: Any, where: str, fail: Fail) -> frozenset[str]:
    """Operators by their full names; ``.default`` is left out, as everywhere."""
    if isinstance(given, (str, bytes)) or not isinstance(given, Collection):
        fail(f"has {an(type(given).__name__)} {where}, not a list of operators")
    for name in given:
        if not isinstance(name, str):
            fail(f"has {an(type(name).__name__)} {where}, not an operator's name")
        if len(name) > LONGEST or not OPERATOR.fullmatch(name):
            fail(f"names '{printable(name)[:60]}' {where}, which is not of the form namespace::name.overload")
    return frozenset(name.removesuffix(".default") for name in given)


def routes(given: Any, fail: Fail) -> dict[str, Callable[..., Any]]:
    """Routes by the operator's full name."""
    if not isinstance(given, Mapping):
        fail(f"has {an(type(given).__name__)} as its routes, not a mapping of operators")
    operators(list(given), "among its routes", fail)
    for name, function in given.items():
        if not callable(function):
            fail(f"has {an(type(function).__name__)} as its route of {name}, not a function")
    return {name.removesuffix(".default"): function for name, function in given.items()}


def _dtypes(given: Any, what: str, fail: Fail) -> dict[str, str]:
    right = isinstance(given, Mapping) and all(isinstance(text, str) for pair in given.items() for text in pair)
    if not right:
        fail(f"has refused dtypes in {what} that are no mapping of a dtype's name to a sentence")
    for name in given:
        if not re.fullmatch(r"[a-z][a-z0-9_]{1,30}", name):
            fail(f"refuses the dtype '{printable(name)[:40]}' in {what}, which is none: write it as 'float64'")
    return {name: printable(text) for name, text in given.items()}


def _texts(given: Any, what: str, fail: Fail) -> tuple[str, ...]:
    if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
        fail(f"has {an(type(given).__name__)} as the notes of {what}, not a list of sentences")
    texts = list(given)
    if not all(isinstance(text, str) for text in texts):
        fail(f"has notes in {what} that are no text")
    return tuple(printable(text) for text in texts)
