"""What a contract is made of: a class whose methods ``test_…`` are the clauses. No pytest in here."""

from __future__ import annotations

import io
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, cast

from mpsprobe.declarations import resolve
from mpsprobe.suggestions import an, nearest, printable
from mpsprobe.userfile import PACKAGES
from mpsprobe_devkit.process_state import IMPORT_STAYS, VARIABLE, changed, process_state, put_back

__tracebackhide__ = True  # a failure under pytest shows the sentence and the plugin's own code, not this
PREFIX = "test_"
SHOWN = 160  # characters of a foreign message
OURS = Path(__file__).parents[2]  # the kit, whose clauses are in the traceback too
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


class Contract:
    """The clauses for one kind of thing, in the order in which they are tried; pytest takes a subclass for tests.

    Where a clause in ``rested_on`` is broken, the others would only say the same again. ``made`` makes what is under
    test anew, or gives the one that there is.
    """

    kind: ClassVar[str]
    rested_on: ClassVar[Sequence[str]] = ("is_what_it_declares",)
    declaration: Any
    made: Callable[[], Any]

    @classmethod
    def unasked(cls) -> Iterable[str]:
        """The clauses that say nothing about what is under test, by what that declares."""
        return ()

    @classmethod
    def of(cls, declaration: Any, without: Mapping[str, str] | None, **given: Any) -> type[Contract]:
        """The clauses for one thing, as a class; ``given`` is ``made``, and what else the kind needs.

        Raises:
            ValueError: ``without`` names a clause that there is not, or gives no reason.
        """
        about = {"__doc__": f"The {cls.kind} '{declaration.name}' keeps the contract.", "__module__": __name__}
        given = {name: staticmethod(value) if callable(value) else value for name, value in given.items()}
        name = f"Test{cls.kind.capitalize()}Contract"
        suite: Any = type(name, (cls,), {**about, **given, "declaration": declaration})
        known = list(suite.clauses())
        for name, reason in (without or {}).items():
            if name not in known:
                near = listed(nearest(name, known) or known)
                raise ValueError(f"the contract for {an(cls.kind)} has no clause '{name}', but {near}")
            if not reason.strip():
                raise ValueError(f"say why the clause '{name}' is left out")
        for name in {*(without or {}), *suite.unasked()}:
            setattr(suite, PREFIX + name, None)
        return cast("type[Contract]", suite)

    @classmethod
    def clauses(cls) -> dict[str, Callable[[Any], None]]:
        """Its own, then those that it shares with other kinds, by name."""
        names = dict.fromkeys(name for parent in cls.__mro__ for name in vars(parent) if name.startswith(PREFIX))
        return {name.removeprefix(PREFIX): clause for name in names if (clause := getattr(cls, name)) is not None}

    @classmethod
    def broken(cls) -> list[BrokenClause]:
        """Every clause that is broken, up to one that the others rest on."""
        found: list[BrokenClause] = []
        for name, clause in cls.clauses().items():
            try:
                with restored(), doing("it"):
                    clause(cls())
            except Broken as broken:
                found.append(BrokenClause(name, str(broken)))
                if name in cls.rested_on:
                    break
        return found


@contextmanager
def doing(what: str) -> Iterator[None]:
    """Code of the plugin runs in here: an exception of it is a broken clause, reported as ``what`` that raised."""
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
        changes = changed(before, process_state())
        put_back(before, [name for name in changes if name not in IMPORT_STAYS and not name.startswith(VARIABLE)])


def want(holds: object, problem: str) -> None:
    """Raise ``Broken`` with ``problem`` unless it holds."""
    if not holds:
        raise Broken(problem)


def want_all(made: Any, protocol: type, name: str, *members: str) -> None:
    """``made`` has the ``members`` of its protocol, and the declared ``name``; raises ``Broken`` otherwise."""
    missing = [member for member in members if not hasattr(made, member)]
    want(isinstance(made, protocol), f"it is {an(type(made).__name__)}, which has no {listed(missing)}")
    named = getattr(made, "name", name)
    want(named == name or "name" not in members, f"its name is {named!r}, and it declares {name!r}")


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
    changes = changed(before, process_state(random_numbers=random_numbers))
    put_back(before, changes)
    want_no_threads(what, threads)
    want(not changes, f"{what} changes {listed(changes)}")
    want(not printed.getvalue(), f"{what} prints {printed.getvalue()[:60]!r} to standard output")


def want_no_threads(what: str, before: set[threading.Thread]) -> None:
    """No thread runs that is not in ``before``, a moment later; raises ``Broken`` otherwise."""
    until = time.monotonic() + PATIENCE_S
    while left := [thread.name for thread in threading.enumerate() if thread not in before]:
        want(time.monotonic() < until, f"{what} leaves a thread running: {listed(left)}")
        time.sleep(0.01)


def made_by(target: str, *arguments: Any) -> Any:
    """What a declaration names, made as mpsprobe makes it: a class is called, the rest is ready."""
    with doing(f"importing '{target}'"):
        loaded = resolve(target)
    return loaded(*arguments) if isinstance(loaded, type) or arguments else loaded


def described(error: BaseException) -> str:
    """An exception in short: its type, its message and the last line outside installed packages that led to it."""
    message = printable(str(error))
    message = message if len(message) <= SHOWN else message[: SHOWN - 1] + "…"
    frames = traceback.extract_tb(error.__traceback__)
    paths = [(Path(frame.filename), frame.lineno) for frame in frames]
    own = [(path, line) for path, line in paths if not PACKAGES & set(path.parts) and OURS not in path.parents]
    where = "".join(f" ({path.name}:{line})" for path, line in (own or paths)[-1:])
    return f"{type(error).__name__}{': ' + message if message else ''}{where}"


def listed(names: Sequence[str]) -> str:
    """Names in a sentence: ``'a', 'b' and 'c'``."""
    shown = [f"'{printable(name)}'" for name in names]
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown) or "nothing"
