"""What a new plugin is called, who writes it, under which license: checked before anything is written."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import keyword
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass

from mpsprobe.errors import UsageError
from mpsprobe.suggestions import printable

LONGEST = 40
MPSPROBE = "mpsprobe"
PREFIX = f"{MPSPROBE}-"
RULE = (
    "A name has lower-case letters, digits and single '-', and begins with a letter: 'my-thing', 'mpsprobe-my-thing'."
)
FORM = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
MEANS_SOMETHING = re.compile(r"build|dist|docs|src|tests?|con|prn|aux|nul|com[0-9]|lpt[0-9]")
"""Folders with a meaning for build tools and pytest, and devices of Windows."""


@dataclass(frozen=True, slots=True)
class Names:
    """Everything that a new plugin is called."""

    distribution: str  # what ``pip`` calls it, and its folder: ``mpsprobe-my-thing``
    package: str  # what Python calls it: ``mpsprobe_my_thing``
    short: str  # its entry point and what it declares: ``my-thing``


def names_of(name: str) -> Names:
    """``name`` and what follows from it.

    Raises UsageError: it has another form, means something else, or is taken; the hint says what to do.
    """
    shown, package = printable(name[:LONGEST]), name.replace("-", "_")
    if not FORM.fullmatch(name) or len(name) > LONGEST or name == MPSPROBE:
        normal = re.sub(r"[-_.]+", "-", name).lower().strip("-")  # PEP 503
        fits = FORM.fullmatch(normal) and len(normal) <= LONGEST and normal not in (name, MPSPROBE)
        raise UsageError(f"'{shown}' cannot be the name of a package", f"Call it '{normal}'." if fits else RULE)
    try:
        taken = f"is installed already, in version {printable(importlib.metadata.version(name))}"
    except importlib.metadata.PackageNotFoundError:
        taken = ""
    if name in _needed_by_mpsprobe():
        taken = "is a package that mpsprobe itself uses"
    elif keyword.iskeyword(package):
        taken = "is a keyword of Python: nobody could import it"
    elif package in sys.stdlib_module_names:
        taken = "is a module of Python itself"
    elif MEANS_SOMETHING.fullmatch(package):
        taken = "means something else to the tools that read the folder"
    elif not taken and importlib.util.find_spec(package) is not None:
        taken = "is a package that can be imported already"
    if taken:
        raise UsageError(f"'{name}' {taken}", another(name))
    return Names(name, package, name.removeprefix(PREFIX))


def _needed_by_mpsprobe() -> set[str]:
    """The distributions that mpsprobe needs or offers as an extra, its own plugins among them, installed or not."""
    try:
        requirements = importlib.metadata.requires(MPSPROBE) or []
    except importlib.metadata.PackageNotFoundError:  # a checkout that is not installed
        return set()
    return {re.split(r"[^A-Za-z0-9._-]", requirement)[0].lower() for requirement in requirements}


def another(name: str) -> str:
    """The advice to take a name that is free more often: with the prefix, or with one word more."""
    other = PREFIX + ("my-" if name.startswith(PREFIX) else "") + name.removeprefix(PREFIX)
    return f"Choose another name, for example '{other}'."


def author_from_git() -> dict[str, str]:
    """Name and address of git's configuration; what it does not know, or no build takes, is left out."""
    values = {}
    for key in ("name", "email") if shutil.which("git") else ():
        answer = subprocess.run(["git", "config", "--get", f"user.{key}"], capture_output=True, check=False)
        text = "".join(
            character for character in answer.stdout.decode("utf-8", "replace") if character.isprintable()
        ).strip()[:100]
        if text and (key == "name" or re.fullmatch(r"[A-Za-z0-9._%+'-]+@[A-Za-z0-9.-]+", text)):
            values[key] = text
    return values


def license_expression(text: str) -> str:
    """``text`` as SPDX writes it: ``mit`` is ``MIT``.

    Raises UsageError: it is not an expression of SPDX, or one of a license that SPDX does not know.
    """
    from packaging.licenses import canonicalize_license_expression

    try:
        return str(canonicalize_license_expression(text))
    except ValueError as error:
        hint = "For example MIT, BSD-3-Clause or Apache-2.0."
        raise UsageError(f"'{printable(text)}' is not a license that SPDX knows", hint) from error
