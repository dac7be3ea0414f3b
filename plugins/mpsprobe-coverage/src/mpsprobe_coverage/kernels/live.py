"""The dispatcher of the torch that is installed, as a kernel table; and which table "installed" means."""

from __future__ import annotations

import functools
import importlib.metadata
import platform
import re
from collections.abc import Iterable
from typing import Any

from packaging.version import InvalidVersion, Version

from mpsprobe.errors import MissingPackage, TableError, UnknownName, UsageError
from mpsprobe_coverage.kernels.releases import resolve_release, torch_releases
from mpsprobe_coverage.kernels.store import load_table
from mpsprobe_coverage.kernels.table import (
    COMPOSITE_LABELS,
    DEFINED,
    MPS,
    MPS_ERROR,
    MPS_FALLBACK,
    MPS_PYTHON,
    KernelTable,
)

INSTALLED = "installed"
LIVE_KEYS = (MPS, "SparseMPS", "SparseCsrMPS", "AutocastMPS")
FALLBACK_SOURCE = "MPSFallback.mm"
REGISTRATION = re.compile(r"(?P<key>\w+): registered at (?P<file>.*):\d+ :: .* \[ (?P<forms>[a-z ]+) \]$")


def installed_release() -> str:
    """The version of torch that is installed, without a local part; nothing is imported.

    Raises:
        MissingPackage: torch is not installed.
    """
    try:
        return Version(importlib.metadata.version("torch")).public
    except importlib.metadata.PackageNotFoundError as error:
        raise MissingPackage("the release 'installed'", "torch") from error
    except InvalidVersion as error:
        raise UsageError(f"the installed torch has an unreadable version: {error}") from error


def target_table(text: str) -> KernelTable:
    """The table that ``--torch TEXT`` means: a release, ``latest``, or ``installed``.

    Raises:
        UsageError: there is no such release, or the installed one has no table.
        MissingPackage: ``installed`` is asked for and torch is not.
    """
    return installed_table() if text == INSTALLED else load_table(resolve_release(text))


def installed_table() -> KernelTable:
    """The live dispatcher on a build that has MPS, the table of the installed release elsewhere.

    Raises:
        UnknownName: the installed release has no table.
        MissingPackage: torch is not installed.
    """
    if has_mps_build():
        return live_table()
    release = installed_release()
    if release not in torch_releases():
        hint = "It is the one that is installed. Name another: --torch latest"
        raise UnknownName("torch release", release, torch_releases(), hint)
    return load_table(release)


def has_mps_build() -> bool:
    """Whether the installed torch was built with MPS; torch is imported only where that is possible."""
    if platform.system() != "Darwin":
        return False
    try:
        import torch
    except ImportError:
        return False
    return bool(torch.backends.mps.is_built())


@functools.cache
def live_table() -> KernelTable:
    """What the installed torch has registered at this moment, for MPS and in general.

    Its ``markers`` are those of the shipped table of the same release, if there is one: a running process does not
    tell them. Nothing is executed on the GPU.

    Raises:
        TableError: the installed torch does not answer these questions.
    """
    import torch

    ask = torch._C
    try:
        everything = ask._dispatch_get_all_op_names()
        by_key = {key: _registrations(ask, key) for key in (*LIVE_KEYS, *COMPOSITE_LABELS)}
        dumps = {operator: ask._dispatch_dump(operator) for operator in by_key[MPS]}
    except (AttributeError, RuntimeError) as error:
        raise TableError(
            f"torch {torch.__version__} does not tell what it registers: {error}", "Name a release: --torch latest"
        ) from error
    release = Version(torch.__version__).public
    shipped = load_table(release) if release in torch_releases() else None
    return KernelTable(
        release=release,
        library="torch",
        wheel="",
        sha256="",
        commit=torch.version.git_version,
        macos_minimum=shipped.macos_minimum if shipped else None,
        requires_torch="",
        labels=_labels(everything, by_key, dumps),
        markers=shipped.markers if shipped else frozenset(),
    )


@functools.cache
def general_labels() -> dict[str, frozenset[str]]:
    """Which operators the installed torch has, and their composite kernels: what holds for every backend.

    Raises:
        TableError: the installed torch does not answer these questions.
    """
    import torch

    ask = torch._C
    try:
        by_key = {key: list(ask._dispatch_get_registrations_for_dispatch_key(key)) for key in COMPOSITE_LABELS}
        return _labels(ask._dispatch_get_all_op_names(), by_key, {})
    except (AttributeError, RuntimeError) as error:
        raise TableError(
            f"torch {torch.__version__} does not tell what it registers: {error}", "Name a release: --torch latest"
        ) from error


def _registrations(ask: Any, key: str) -> list[str]:
    """Operators with a kernel under ``key``; none where this torch has no such key (SparseMPS before 2.7)."""
    try:
        found: list[str] = ask._dispatch_get_registrations_for_dispatch_key(key)
    except RuntimeError as error:
        if key == MPS or "could not parse dispatch key" not in str(error):
            raise
        return []
    return found


def _labels(
    everything: Iterable[str], by_key: dict[str, list[str]], dumps: dict[str, str]
) -> dict[str, frozenset[str]]:
    labels: dict[str, set[str]] = {operator: {DEFINED} for operator in sorted(everything)}
    for key, operators in by_key.items():
        for operator in operators:
            labels.setdefault(operator, set()).add(key)
    for operator, dump in dumps.items():
        origin = origin_of(dump, MPS)
        if origin == MPS_PYTHON:
            labels[operator].discard(MPS)  # as in the shipped tables, whose key MPS holds what the binary registers
        if origin is not None:
            labels[operator].add(origin)
    return {operator: frozenset(found) for operator, found in labels.items()}


def origin_of(dump: str, key: str) -> str | None:
    """Where the active kernel for ``key`` comes from, read from ``torch._C._dispatch_dump``.

    Returns ``MPS:fallback``, ``MPS:error`` or ``MPS:python`` as in the tables, ``None`` for an ordinary kernel or none.
    """
    for line in dump.splitlines():
        match = REGISTRATION.match(line)
        if match is None or match["key"] != key:
            continue
        file = match["file"].replace("\\", "/").rpartition("/")[2]
        if file == FALLBACK_SOURCE:
            # mps_fallback is a boxed function; what that file registers beside it is there to raise.
            return MPS_FALLBACK if match["forms"] == "boxed" else MPS_ERROR
        return MPS_PYTHON if file.endswith(".py") else None
    return None
