"""What a contract is made of: clauses as plain functions, run one by one, or as a class of tests. No pytest in here."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from mpsprobe.suggestions import an, nearest, printable
from mpsprobe_devkit.process_state import IMPORT_STAYS, VARIABLE, changed, process_state, put_back

Subject = TypeVar("Subject")
Check = Callable[[Subject], None]
SHOWN = 160  # characters of a foreign message


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


@dataclass(frozen=True, slots=True)
class Clause(Generic[Subject]):
    """One thing that a contract asks for.

    Attributes:
        name: what the test is called, after ``test_``.
        says: what it asks for, in a sentence.
        check: raises ``Broken`` where it does not hold.
        applies: whether it says anything about this subject, by what the subject declares; nothing heavy is imported.
        rested_on: the clauses after it would only say the same again where this one is broken.
    """

    name: str
    says: str
    check: Check[Subject]
    applies: Callable[[Subject], bool]
    rested_on: bool = False

    def broken(self, subject: Subject) -> Broken | None:
        """What is broken about ``subject``, with the exception that led to it as its cause; ``None`` if nothing is."""
        try:
            with restored():
                self.check(subject)
        except Broken as broken:
            return broken
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the plugin's code, which the message quotes
            raised = Broken(described(error))
            raised.__cause__ = error
            return raised
        return None


def _always(subject: object) -> bool:
    del subject
    return True


@dataclass
class Contract(Generic[Subject]):
    """The clauses for one kind of thing, in the order in which they are tried.

    Attributes:
        kind: ``exporter``, ``workload``, …
    """

    kind: str
    clauses: list[Clause[Subject]] = field(default_factory=list)

    def clause(
        self, *, when: Callable[[Subject], bool] = _always, rested_on: bool = False
    ) -> Callable[[Callable[[Subject], None]], Callable[[Subject], None]]:
        """Makes a function a clause, whose name it has and whose docstring says what it asks for."""

        def add(check: Callable[[Subject], None]) -> Callable[[Subject], None]:
            says = " ".join((check.__doc__ or "").split("\n\n")[0].split())
            self.clauses.append(Clause(check.__name__, says, check, when, rested_on))
            return check

        return add

    def asked_of(self, subject: Subject, without: Mapping[str, str] | None = None) -> list[Clause[Subject]]:
        """The clauses that apply to ``subject``, less those that ``without`` names.

        Args:
            without: clauses to leave out, each with the reason why.

        Raises:
            ValueError: ``without`` names a clause that there is not, or gives no reason.
        """
        known = [clause.name for clause in self.clauses]
        for name, reason in (without or {}).items():
            if name not in known:
                near = nearest(name, known)
                meant = f"; did you mean {' or '.join(near)}?" if near else f"; there are: {', '.join(known)}"
                raise ValueError(f"the contract for {an(self.kind)} has no clause '{printable(name)}'{meant}")
            if not reason.strip():
                raise ValueError(f"say why the clause '{name}' is left out")
        return [one for one in self.clauses if one.name not in (without or {}) and one.applies(subject)]

    def broken(self, subject: Subject, without: Mapping[str, str] | None = None) -> list[BrokenClause]:
        """Every clause that ``subject`` breaks, up to one that the others rest on. Raises as ``asked_of``."""
        found: list[BrokenClause] = []
        for clause in self.asked_of(subject, without):
            broken = clause.broken(subject)
            if broken is not None:
                found.append(BrokenClause(clause.name, str(broken)))
                if clause.rested_on:
                    break
        return found

    def suite(self, subject: Subject, name: str, without: Mapping[str, str] | None = None) -> type:
        """A class with one test method for each clause that applies, for pytest to collect. Raises as ``asked_of``.

        Args:
            name: of what is tested, for the docstring.
        """
        methods = {f"test_{one.name}": _method(one, subject) for one in self.asked_of(subject, without)}
        titled = "".join(part.capitalize() for part in self.kind.split())
        about = {"__doc__": f"The {self.kind} '{name}' keeps the contract.", "__module__": __name__}
        return type(f"Test{titled}Contract", (), {**about, **methods})


def _method(clause: Clause[Any], subject: Any) -> Callable[[Any], None]:
    def test(self: Any) -> None:
        __tracebackhide__ = True  # a failure shows the sentence and the plugin's own code, not this
        del self
        broken = clause.broken(subject)
        if broken is not None:
            # The short class name leaves pytest's summary room for what is broken.
            raise AssertionError(f"{broken}\nThe contract: {clause.says}") from broken.__cause__

    test.__name__ = test.__qualname__ = f"test_{clause.name}"
    test.__doc__ = clause.says
    return test


@contextmanager
def doing(what: str) -> Iterator[None]:
    """Code of the plugin runs in here: an exception of it is a broken clause, reported as ``what`` that raised.

    Args:
        what: as a subject of "raised": "rendering the sample report of the kind 'profile'".
    """
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
