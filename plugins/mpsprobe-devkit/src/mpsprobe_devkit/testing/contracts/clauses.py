"""What a contract is made of: clauses, which are run one by one or as a class of tests. No pytest in here."""

from __future__ import annotations

import io
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from mpsprobe.declarations import resolve
from mpsprobe.suggestions import an, nearest, printable
from mpsprobe_devkit.process_state import IMPORT_STAYS, VARIABLE, changed, process_state, put_back

Function = TypeVar("Function", bound=Callable[..., None])
SHOWN = 160  # characters of a foreign message
PATIENCE_S = 2.0  # a thread that was asked to stop may need a moment


class Broken(AssertionError):
    """A clause does not hold; the message says in a sentence what is broken."""


@dataclass(frozen=True, slots=True)
class BrokenClause:
    """A clause that does not hold.

    Attributes:
        clause: its name, as ``without=`` takes it and a test's name ends with it.
        problem: what is broken, in a sentence.
    """

    clause: str
    problem: str


def clause(*, when: Callable[[Any], bool] = bool, rested_on: bool = False) -> Callable[[Function], Function]:
    """Makes a method a clause, whose name it has and whose docstring says what it asks for.

    Args:
        when: whether it says anything about this subject, by what that declares; nothing heavy is imported.
        rested_on: the clauses after it would only say the same again where this one is broken.
    """

    def mark(method: Function) -> Function:
        method.__dict__.update(applies=when, rested_on=rested_on)
        return method

    return mark


class Contract:
    """The clauses for one kind of thing, in the order in which they are tried. Each kind is a subclass.

    Args:
        declaration: what it declares.
        make: makes it, or gives the one that there is.
        given: what else the kind needs, as attributes.
    """

    kind: ClassVar[str]

    def __init__(self, declaration: Any, make: Callable[[], Any], **given: Any) -> None:
        self.declaration = declaration
        self.made = make
        vars(self).update(given)

    def clauses(self, without: Mapping[str, str] | None = None) -> dict[str, Any]:
        """The clauses that apply, by name, less those that ``without`` names with the reason why.

        Raises:
            ValueError: ``without`` names a clause that there is not, or gives no reason.
        """
        every = [item for parent in type(self).__mro__ for item in vars(parent).items()]  # its own, then shared ones
        known = {name: one for name, one in every if hasattr(one, "rested_on")}
        for name, reason in (without or {}).items():
            if name not in known:
                near = nearest(name, known) or list(known)
                raise ValueError(f"the contract for {an(self.kind)} has no clause '{name}', but {listed(near)}")
            if not reason.strip():
                raise ValueError(f"say why the clause '{name}' is left out")
        return {name: one for name, one in known.items() if name not in (without or {}) and one.applies(self)}

    def broken(self, without: Mapping[str, str] | None = None) -> list[BrokenClause]:
        """Every clause that is broken, up to one that the others rest on. Raises as ``clauses``."""
        found: list[BrokenClause] = []
        for name, one in self.clauses(without).items():
            if (broken := self._broken(one)) is not None:
                found.append(BrokenClause(name, str(broken)))
                if one.rested_on:
                    break
        return found

    def suite(self, without: Mapping[str, str] | None = None) -> type:
        """A class with one test method for each clause that applies, for pytest to collect. Raises as ``clauses``."""
        about = {"__doc__": f"The {self.kind} '{self.declaration.name}' keeps the contract.", "__module__": __name__}
        methods = {f"test_{name}": self._method(one) for name, one in self.clauses(without).items()}
        return type(f"Test{self.kind.capitalize()}Contract", (), {**about, **methods})

    def _method(self, one: Any) -> Callable[[Any], None]:
        def test(_suite: Any) -> None:
            __tracebackhide__ = True  # a failure shows the sentence and the plugin's own code, not this
            if (broken := self._broken(one)) is not None:
                raise AssertionError(f"{broken}\nThe contract: {one.__doc__}") from broken.__cause__

        return test

    def _broken(self, one: Any) -> Broken | None:
        try:
            with restored(), doing("it"):
                one(self)
        except Broken as broken:
            return broken
        return None


@contextmanager
def doing(what: str) -> Iterator[None]:
    """Code of the plugin runs in here: an exception of it is a broken clause, reported as ``what`` that raised."""
    __tracebackhide__ = True
    try:
        yield
    except Broken:
        raise
    except (Exception, SystemExit) as error:  # SystemExit too: a plugin that ends the process is not sound
        raise Broken(f"{what} raised {described(error)}") from error


@contextmanager
def restored() -> Iterator[None]:
    """Torch's defaults, generators and hooks are afterwards as before: one clause does not spoil the next.

    What an import inside brings for good (variables, ``sys.path``) stays.
    """
    before = process_state()
    try:
        yield
    finally:
        found = changed(before, process_state())
        put_back(before, [name for name in found if name not in IMPORT_STAYS and not name.startswith(VARIABLE)])


def want(holds: object, problem: str) -> None:
    """Raise ``Broken`` with ``problem`` unless it holds."""
    if not holds:
        raise Broken(problem)


def want_all(made: Any, protocol: type, name: str, *members: str) -> None:
    """``made`` has the ``members`` of its protocol, and the declared ``name``; raises ``Broken`` otherwise."""
    missing = [one for one in members if not hasattr(made, one)]
    want(isinstance(made, protocol), f"it is {an(type(made).__name__)}, which has no {listed(missing)}")
    want("name" not in members or made.name == name, f"its name is {made.name!r}, and it declares {name!r}")


def want_sentence(reason: Any) -> None:
    """What ``unavailable`` gives is ``None`` or a sentence on one line; raises ``Broken`` otherwise."""
    sentence = isinstance(reason, str) and bool(reason.strip()) and len(reason.splitlines()) == 1
    want(reason is None or sentence, f"unavailable() gives {reason!r}, neither None nor a sentence on one line")


def want_no_traces(what: str, action: Callable[[], object], *, random_numbers: bool = False) -> None:
    """``action`` changes nothing of the process, prints nothing and leaves no thread behind; raises ``Broken`` else.

    It is called twice: what its imports change, the first time, is no business of it.

    Args:
        what: the subject of "changes …": "building it for training".
        random_numbers: it may not draw any either.
    """
    with restored():
        action()
    threads, before, printed = set(threading.enumerate()), process_state(random_numbers=random_numbers), io.StringIO()
    with redirect_stdout(printed):
        action()
    found = changed(before, process_state(random_numbers=random_numbers))
    put_back(before, found)
    want_no_threads(what, threads)
    want(not found, f"{what} changes {listed(found)}")
    want(not printed.getvalue(), f"{what} prints {printed.getvalue()[:60]!r} to standard output")


def want_no_threads(what: str, before: set[threading.Thread]) -> None:
    """No thread runs that is not in ``before``, a moment later; raises ``Broken`` otherwise."""
    until = time.monotonic() + PATIENCE_S
    while left := [thread.name for thread in threading.enumerate() if thread not in before]:
        want(time.monotonic() < until, f"{what} leaves a thread running: {listed(left)}")
        time.sleep(0.01)


def made_by(target: str, *arguments: Any) -> Callable[[], Any]:
    """Makes what a declaration names, as mpsprobe does: a class is called, the rest is ready."""

    def make() -> Any:
        with doing(f"importing '{target}'"):
            found = resolve(target)
        return given(found, *arguments)()

    return make


def given(one: Any, *arguments: Any) -> Callable[[], Any]:
    """Makes one of a class, or of a function where there are arguments; or gives the object that there is."""

    def make() -> Any:
        return one(*arguments) if isinstance(one, type) or arguments else one

    return make


def described(error: BaseException) -> str:
    """An exception in short: its type, its message and the line that raised it."""
    message = printable(str(error))
    message = message if len(message) <= SHOWN else message[: SHOWN - 1] + "…"
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}{': ' + message if message else ''}{where}"


def listed(names: Sequence[str]) -> str:
    """Names in a sentence: ``'a', 'b' and 'c'``."""
    shown = [f"'{printable(name)}'" for name in names]
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown) or "nothing"
