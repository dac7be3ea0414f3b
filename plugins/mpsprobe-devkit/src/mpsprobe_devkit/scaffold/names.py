"""The name of a new plugin: checked before anything is written, because it is hard to change after a release."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import keyword
import re
import sys
import unicodedata
from dataclasses import dataclass

from mpsprobe.errors import UsageError
from mpsprobe.suggestions import printable

LONGEST = 40
MPSPROBE = "mpsprobe"
PREFIX = f"{MPSPROBE}-"
EXAMPLE = "Names look like 'my-thing' or 'mpsprobe-my-thing'."
FORM = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")

# Folders next to the package that have a meaning for build tools, git and pytest.
FOLDERS = frozenset({"build", "dist", "docs", "src", "test", "tests"})
# Windows opens a device for them, whatever the folder and the extension.
WINDOWS_DEVICES = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])")
# Of PyTorch, whether they are installed here or not.
PYTORCH = frozenset({"functorch", "torch", "torchaudio", "torchgen", "torchtext", "torchvision", "triton"})


@dataclass(frozen=True, slots=True)
class Names:
    """Everything that a new plugin is called.

    Attributes:
        distribution: what ``pip`` calls it, and its folder: ``mpsprobe-my-thing``.
        package: what Python calls it: ``mpsprobe_my_thing``.
        short: its entry point and what it declares: ``my-thing``.
    """

    distribution: str
    package: str
    short: str


def names_of(name: str) -> Names:
    """``name`` and what follows from it.

    Args:
        name: of the distribution, in the normal form of PEP 503.

    Raises:
        UsageError: it has another form, means something else, or is taken; the hint says what to do.
    """
    _check_form(name)
    names = Names(name, name.replace("-", "_"), name.removeprefix(PREFIX))
    _check_meaning(names)
    _check_free(names)
    return names


def _check_form(name: str) -> None:
    shown = printable(name[:LONGEST]) + ("…" if len(name) > LONGEST else "")
    if not name.strip():
        raise UsageError("the name of the plugin is empty", EXAMPLE)
    if len(name) > LONGEST:
        raise UsageError(f"'{shown}' has {len(name)} characters, more than {LONGEST}", "Choose a shorter name.")
    if "/" in name or "\\" in name or name in {".", ".."}:
        raise UsageError(f"'{shown}' is a path, not a name", "Give a name alone; --into DIR says where it is written.")
    foreign = next((character for character in name if not character.isascii()), None)
    if foreign is not None:
        called = unicodedata.name(foreign, f"U+{ord(foreign):04X}")
        raise UsageError(f"'{shown}' has a character that is not ASCII: {called}", EXAMPLE)
    if FORM.fullmatch(name) and name != MPSPROBE:
        return
    normal = re.sub(r"[-_.]+", "-", name).lower().strip("-")  # PEP 503
    if normal != name and FORM.fullmatch(normal):
        raise UsageError(f"'{shown}' is not how package indexes write a name", f"Call it '{normal}'.")
    if name == MPSPROBE:
        raise UsageError(f"'{shown}' is what plugins are for", EXAMPLE)
    rule = "A name has lower-case letters, digits and single '-', and begins with a letter."
    raise UsageError(f"'{shown}' cannot be the name of a package", f"{rule} {EXAMPLE}")


def _check_meaning(names: Names) -> None:
    """The package can be imported, is no one else's, and is a folder like any other."""
    package, other = names.package, another(names.distribution)
    if keyword.iskeyword(package):
        raise UsageError(f"'{package}' is a keyword of Python: nobody could import it", other)
    if package in sys.stdlib_module_names:
        raise UsageError(f"'{package}' is a module of Python itself", other)
    if package in PYTORCH:
        raise UsageError(f"'{package}' is a package of PyTorch", other)
    if package in FOLDERS or WINDOWS_DEVICES.fullmatch(package):
        raise UsageError(f"'{package}' means something else to the tools that read the folder", other)


def _check_free(names: Names) -> None:
    """Neither the distribution nor its package is there already."""
    other = another(names.distribution)
    if names.distribution in _needed_by_mpsprobe():
        raise UsageError(f"'{names.distribution}' is a package that mpsprobe itself uses", other)
    try:
        version = importlib.metadata.version(names.distribution)
    except importlib.metadata.PackageNotFoundError:
        pass
    else:
        raise UsageError(f"'{names.distribution}' is installed already, in version {printable(version)}", other)
    if importlib.util.find_spec(names.package) is not None:
        raise UsageError(f"'import {names.package}' finds something else already", other)


def _needed_by_mpsprobe() -> set[str]:
    """The distributions that mpsprobe needs or offers as an extra, its own plugins among them, installed or not."""
    try:
        requirements = importlib.metadata.requires(MPSPROBE) or []
    except importlib.metadata.PackageNotFoundError:  # a checkout that is not installed
        return set()
    found = (re.match(r"[A-Za-z0-9._-]+", requirement) for requirement in requirements)
    return {re.sub(r"[-_.]+", "-", match.group()).lower() for match in found if match}


def another(name: str) -> str:
    """The advice to take a name that is free more often: with the prefix, or with one word more."""
    other = PREFIX + ("my-" if name.startswith(PREFIX) else "") + name.removeprefix(PREFIX)
    return f"Choose another name, for example '{other}'."
