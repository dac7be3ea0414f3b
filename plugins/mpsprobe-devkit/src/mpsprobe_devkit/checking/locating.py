"""From what the user typed to what is checked: a folder, a file, a wheel, or something installed."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from mpsprobe.errors import UsageError
from mpsprobe.suggestions import nearest, printable
from mpsprobe_devkit.checking.distributions import read_installed, read_single_file, read_wheel
from mpsprobe_devkit.checking.project import FILE, read_project
from mpsprobe_devkit.checking.subject import Subject

SUFFIXES = (".py", ".whl")


@contextlib.contextmanager
def found_subject(target: str | Path) -> Iterator[Subject]:
    """What ``target`` stands for. A wheel is unpacked as long as the context lasts.

    Raises:
        UsageError: there is nothing of that name, or it cannot be read.
    """
    text = os.fspath(target)
    if not text.strip() or "\0" in text:
        raise UsageError("no plugin was named", "Name a folder, a .py file, a wheel or an installed plugin.")
    if not _is_path(target):
        yield read_installed(text, text, _folders_here())
        return
    path = Path(text).expanduser()
    try:
        there, is_folder = path.stat(), path.is_dir()
    except OSError as error:
        raise UsageError(f"'{printable(text)}' cannot be read: {error.strerror}", _near(path)) from error
    if is_folder:
        yield read_project(path, text)
    elif path.suffix == ".whl" and there:
        # The links of a temporary folder are followed: macOS has /tmp in /private, and paths are compared.
        with tempfile.TemporaryDirectory(prefix="mpsprobe-", ignore_cleanup_errors=True) as unpacked:
            yield read_wheel(path, text, Path(unpacked).resolve())
    elif path.suffix == ".py":
        yield read_single_file(path, text)
    else:
        raise UsageError(f"'{printable(text)}' is neither a folder nor a .py file nor a wheel")


def _is_path(target: str | Path) -> bool:
    """Whether a path is meant: it has a separator, one of our suffixes, or is a folder that holds a project."""
    if isinstance(target, Path) or target in {".", ".."} or target.startswith("~") or target.endswith(SUFFIXES):
        return True
    if os.sep in target or "/" in target:
        return True
    return os.path.lexists(os.path.join(target, FILE))  # noqa: PTH118 - no exception for whatever was typed


def _folders_here() -> list[str]:
    """The projects in the current folder: one of them may have been meant."""
    try:
        with os.scandir() as entries:
            return [one.name for one in entries if os.path.lexists(os.path.join(one.path, FILE))]  # noqa: PTH118
    except OSError:
        return []


def _near(path: Path) -> str | None:
    try:
        near = nearest(path.name, [one.name for one in path.parent.iterdir()], count=1)
    except OSError:
        return None
    return f"There is '{printable(str(path.parent / near[0]))}'." if near else None
