"""What is put under a contract: a declaration, a class, an object or a function that makes one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mpsprobe.declarations import resolve
from mpsprobe_devkit.testing.contracts.clauses import Broken, doing


@dataclass(frozen=True, slots=True)
class Made:
    """Makes what is tested, anew at each call.

    Attributes:
        make: does so.
        importable: whether another process can do so too, by a declaration's target.
    """

    make: Callable[[], Any]
    importable: bool

    def __call__(self) -> Any:
        """A new one; the same one each time where an object was given.

        Raises:
            Broken: it cannot be imported or made.
        """
        return self.make()


def by_target(target: str) -> Made:
    """What a declaration names, made as mpsprobe makes it: a class is called without arguments, the rest is ready."""

    def make() -> Any:
        found = resolved(target)
        with doing(f"'{target}', called without arguments,"):
            return found() if isinstance(found, type) else found

    return Made(make, importable=True)


def given(one: Any) -> Made:
    """A class, which is called without arguments, or an object."""

    def make() -> Any:
        with doing(f"{getattr(one, '__name__', 'it')}()"):
            return one() if isinstance(one, type) else one

    return Made(make, importable=False)


def resolved(target: str) -> Any:
    """What ``target`` names.

    Raises:
        Broken: it does not resolve, or importing it fails.
    """
    with doing(f"importing '{target}'"):
        return resolve(target)


def name_of(one: Any) -> str:
    """What to call a class or an object that has no declaration: its own name, its class's, or the function's."""
    name = one.__name__ if isinstance(one, type) else getattr(one, "name", None) or getattr(one, "__name__", None)
    return str(name or type(one).__name__)


def place_of(one: Any) -> str:
    """``"module:Class"`` of a class or an object; no promise that it can be imported."""
    owner = one if hasattr(one, "__qualname__") else type(one)
    return f"{owner.__module__}:{owner.__qualname__}"


def refuse_unless(holds: bool, problem: str) -> None:
    """Raise ``Broken`` with ``problem`` unless it holds."""
    if not holds:
        raise Broken(problem)
