"""What a pickle would make, from its opcodes: nothing is imported, and nothing is called.

``pickletools.genops`` takes the stream apart; what follows keeps the stack as the unpickler would, with records in the
place of classes, functions and what calling them returns. So it is known what is imported and called with what.
"""

from __future__ import annotations

import pickletools
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import IO, Any, NamedTuple, Protocol, cast

MOST_OPCODES = 2_000_000
"""A state dict with 10,000 tensors has some 500,000."""
MOST_MARKS = 1_000
"""Of lists, tuples and dictionaries within each other."""


class PickleError(ValueError):
    """The stream is no pickle, or one that no pickler writes."""


class Stream(Protocol):
    """What opcodes are read from."""

    def read(self, count: int, /) -> bytes:
        """The next bytes."""
        ...

    def readline(self) -> bytes:
        """The next line."""
        ...


class Global(NamedTuple):
    """What a pickle imports."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


class Persistent(NamedTuple):
    """What the file keeps outside the pickle: of torch, a storage."""

    key: Any


@dataclass(slots=True, eq=False)
class Called:
    """What calling something returns, and what is put into it afterwards.

    Attributes:
        function: what is called; a ``Global``, where it was imported.
        arguments: a tuple, in any pickle that a pickler writes.
        inside: items, pairs of items, and states that are set.
    """

    function: Any
    arguments: Any
    inside: list[Any] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Pairs:
    """A dictionary. Its keys may be anything, also what takes for ever to hash: none is hashed."""

    items: list[tuple[Any, Any]] = field(default_factory=list)


class Pickle:
    """The opcodes of one pickle, followed to its end.

    Args:
        stream: stands where the pickle begins; afterwards behind its end.
        most: opcodes that are followed.

    Attributes:
        root: what it would make.
        imports: what it imports → how often.

    Raises:
        PickleError: it is none, or has more opcodes.
    """

    def __init__(self, stream: Stream, most: int = MOST_OPCODES) -> None:
        self.imports: Counter[Global] = Counter()
        self._stack: list[Any] = []
        self._marks: list[list[Any]] = []
        self._memo: dict[Any, Any] = {}
        self._follow(stream, most)
        self.root: Any = self._stack.pop() if self._stack else None

    def _follow(self, stream: Stream, most: int) -> None:
        try:
            for count, (opcode, argument, _) in enumerate(pickletools.genops(cast("IO[bytes]", stream))):
                if count >= most:
                    raise PickleError(f"has more than {most:,} opcodes")
                name = opcode.name
                if name in VALUES:
                    self._stack.append(argument)
                elif name in ACTIONS:
                    ACTIONS[name](self, argument)
                elif name not in IGNORED:
                    raise PickleError(f"has the opcode {name}, which torch does not write")
        except PickleError:
            raise
        except (IndexError, KeyError, AttributeError, TypeError, ValueError, OverflowError) as error:
            raise PickleError(f"is not a whole pickle: {error}") from error

    def marked(self) -> list[Any]:
        """What was put on the stack since the last mark."""
        found, self._stack = self._stack, self._marks.pop()
        return found

    def mark(self, _: Any) -> None:
        if len(self._marks) >= MOST_MARKS:
            raise PickleError("is nested too deeply")
        self._marks.append(self._stack)
        self._stack = []

    def push(self, value: Any) -> None:
        """Put ``value`` on the stack."""
        self._stack.append(value)

    def pop(self) -> Any:
        """Take from the stack."""
        return self._stack.pop()

    def drop(self, _: Any) -> None:
        if self._stack:
            self._stack.pop()
        else:
            self.marked()

    def dropped(self, _: Any) -> None:
        """Forget what was put on the stack since the last mark."""
        self.marked()

    def dictionary(self, _: Any) -> None:
        """The opcode DICT: keys and values above a mark."""
        items = self.marked()
        self.push(Pairs())
        self.paired(items)

    def top(self, count: int) -> tuple[Any, ...]:
        """Take the last ``count``, as a tuple."""
        if count > len(self._stack):
            raise PickleError("is not a whole pickle: its stack is empty")
        found = tuple(self._stack[-count:])
        del self._stack[-count:]
        return found

    def put(self, place: Any) -> None:
        self._memo[len(self._memo) if place is None else int(place)] = self._stack[-1]

    def get(self, place: Any) -> None:
        self._stack.append(self._memo[int(place)])

    def imported(self, module: Any, name: Any) -> None:
        """Put what would be imported on the stack."""
        known = isinstance(module, str) and isinstance(name, str)
        found = Global(module, name) if known else Global("?", "?")  # made by another call
        self.imports[found] += 1
        self._stack.append(found)

    def added(self, items: list[Any]) -> None:
        """Put items into what is on top of the stack."""
        target = self._stack[-1]
        if isinstance(target, list):
            target.extend(items)
        elif isinstance(target, Called):
            target.inside.extend(items)

    def paired(self, items: list[Any]) -> None:
        """Put pairs of key and value into what is on top of the stack."""
        pairs = list(zip(items[::2], items[1::2], strict=True))
        target = self._stack[-1]
        (target.items if isinstance(target, Pairs) else target.inside).extend(pairs)

    def call(self, *, keywords: bool = False) -> None:
        """A call of what lies below its arguments."""
        extra = self.pop() if keywords else None
        arguments, function = self.pop(), self.pop()
        self.push(Called(function, arguments, [extra] if keywords else []))

    def built(self, _: Any) -> None:
        """Set the state of what lies below it."""
        state = self.pop()
        if isinstance(self._stack[-1], Called):
            self._stack[-1].inside.append(state)

    def instance(self, argument: str) -> None:
        """The opcode INST: an import and a call in one."""
        self.imported(*argument.split(" ", 1))
        function = self.pop()
        self.push(Called(function, tuple(self.marked())))

    def made_object(self, _: Any) -> None:
        """The opcode OBJ: a class with its arguments above a mark."""
        function, *arguments = self.marked()
        self.push(Called(function, tuple(arguments)))


Action = Callable[[Pickle, Any], None]
IGNORED = frozenset({"PROTO", "FRAME", "STOP", "READONLY_BUFFER"})
VALUES = frozenset(
    {
        "INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT", "STRING", "BINSTRING",
        "SHORT_BINSTRING", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8", "UNICODE", "BINUNICODE",
        "SHORT_BINUNICODE", "BINUNICODE8",
    }
)  # fmt: skip
"""Opcodes that put their own argument on the stack."""


def _pushes(make: Callable[[], Any]) -> Action:
    return lambda pickle, _: pickle.push(make())


def _tuples(count: int) -> Action:
    return lambda pickle, _: pickle.push(pickle.top(count))


def _extension(pickle: Pickle, code: Any) -> None:
    pickle.imported("copyreg", f"extension {code}")


ACTIONS: dict[str, Action] = {
    "MARK": Pickle.mark,
    "POP": Pickle.drop,
    "POP_MARK": Pickle.dropped,
    "DUP": lambda pickle, _: pickle.push(pickle._stack[-1]),
    "NONE": _pushes(lambda: None),
    "NEWTRUE": _pushes(lambda: True),
    "NEWFALSE": _pushes(lambda: False),
    "EMPTY_LIST": _pushes(list),
    "EMPTY_SET": _pushes(list),
    "EMPTY_DICT": _pushes(Pairs),
    "EMPTY_TUPLE": _pushes(tuple),
    "TUPLE1": _tuples(1),
    "TUPLE2": _tuples(2),
    "TUPLE3": _tuples(3),
    "TUPLE": lambda pickle, _: pickle.push(tuple(pickle.marked())),
    "LIST": lambda pickle, _: pickle.push(pickle.marked()),
    "FROZENSET": lambda pickle, _: pickle.push(pickle.marked()),
    "DICT": Pickle.dictionary,
    "APPEND": lambda pickle, _: pickle.added([pickle.pop()]),
    "APPENDS": lambda pickle, _: pickle.added(pickle.marked()),
    "ADDITEMS": lambda pickle, _: pickle.added(pickle.marked()),
    "SETITEM": lambda pickle, _: pickle.paired(list(pickle.top(2))),
    "SETITEMS": lambda pickle, _: pickle.paired(pickle.marked()),
    "PUT": Pickle.put,
    "BINPUT": Pickle.put,
    "LONG_BINPUT": Pickle.put,
    "MEMOIZE": Pickle.put,
    "GET": Pickle.get,
    "BINGET": Pickle.get,
    "LONG_BINGET": Pickle.get,
    "GLOBAL": lambda pickle, argument: pickle.imported(*argument.split(" ", 1)),
    "STACK_GLOBAL": lambda pickle, _: pickle.imported(*pickle.top(2)),
    "INST": Pickle.instance,
    "OBJ": Pickle.made_object,
    "REDUCE": lambda pickle, _: pickle.call(),
    "NEWOBJ": lambda pickle, _: pickle.call(),
    "NEWOBJ_EX": lambda pickle, _: pickle.call(keywords=True),
    "BUILD": Pickle.built,
    "PERSID": lambda pickle, argument: pickle.push(Persistent(argument)),
    "BINPERSID": lambda pickle, _: pickle.push(Persistent(pickle.pop())),
    "EXT1": _extension,
    "EXT2": _extension,
    "EXT4": _extension,
}
"""Opcode → what it does to the stack (the comments of CPython's Lib/pickletools.py)."""


def walked(root: Any) -> Iterator[tuple[str, Any]]:
    """Everything in ``root`` with its path, each once; what is called is given, and what is inside it too."""
    waiting: list[tuple[str, Any]] = [("", root)]
    seen: set[int] = set()
    while waiting:
        path, one = waiting.pop()
        if isinstance(one, (str, int, float, bytes, type(None))) or id(one) in seen:
            continue
        seen.add(id(one))
        yield path, one
        if isinstance(one, Pairs):
            inner = [(_joined(path, key), value) for key, value in one.items]
        elif isinstance(one, Called):
            inner = [(path, one.arguments)]
            inner += [
                (_joined(path, x[0]), x[1]) if isinstance(x, tuple) and len(x) == 2 else (path, x) for x in one.inside
            ]
        elif isinstance(one, (list, tuple)):
            inner = [(path, value) for value in one]
        else:
            continue
        waiting += reversed(inner)


LONGEST_PATH = 300


def _joined(path: str, key: Any) -> str:
    if not isinstance(key, str) or len(path) + len(key) > LONGEST_PATH:
        return path
    return f"{path}.{key}" if path else key
