"""Checkpoints that ``torch.save`` wrote, in both of its formats: sizes and dtypes from the opcodes, never loaded.

``pickletools.genops`` takes the stream apart; nothing is imported, and nothing is called.
"""

from __future__ import annotations

import io
import pickletools
import re
import struct
import tomllib
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple

from mpsprobe.suggestions import printable
from mpsprobe_hf.checkpoint.dtypes import BITS, STORAGES
from mpsprobe_hf.checkpoint.reading import LARGEST_NUMBER, MEBIBYTE, ReadFile, StoredTensor, damaged, open_regular

ZIP = b"PK\x03\x04"
MAGIC = 0x1950A86A20F9469CFC6C
"""The first pickle of the older format (``MAGIC_NUMBER`` in torch/serialization.py)."""
LARGEST_PICKLE = 64 * MEBIBYTE
"""Bytes of the opcodes; the tensors' values are not among them."""
LARGEST_DIRECTORY = 16 * MEBIBYTE
"""Bytes of a zip file's list of files: some 200,000 tensors."""
MOST_OPCODES = 2_000_000
"""A state dict with 10,000 tensors has some 500,000."""
MOST_MARKS = 1_000
"""Of lists, tuples and dictionaries within each other."""
LONGEST_PATH = 300
RECORD = "data.pkl"
END_OF_ZIP, END_64, LOCATOR = b"PK\x05\x06", b"PK\x06\x06", b"PK\x06\x07"
REBUILT = frozenset(f"torch._utils._rebuild_{name}" for name in ("tensor", "tensor_v2", "tensor_v3", "qtensor"))
"""Functions that make a tensor of a storage, their first argument."""
WITH_DTYPE = "torch._utils._rebuild_tensor_v3"
DTYPE_AT = 6  # of that function's arguments

Kind = Literal["weights", "code"]
WEIGHTS = frozenset(tomllib.loads((files(__package__) / "allowed.toml").read_text(encoding="utf-8"))["weights"])
"""What ``torch.load`` allows by default."""


class PickleError(ValueError):
    """The stream is no pickle, or one that no pickler writes."""


class Global(NamedTuple):  # what a pickle imports
    module: str
    name: str


class Persistent(NamedTuple):  # what the file keeps outside the pickle: of torch, a storage
    key: Any


class Pair(NamedTuple):  # its key may be anything, also what takes for ever to hash: none is hashed
    key: Any
    value: Any


@dataclass(slots=True, eq=False)
class Called:
    """What calling ``function`` returns, with the items and states that are put into it afterwards."""

    function: Any
    arguments: Any
    inside: list[Any] = field(default_factory=list)


@dataclass(slots=True)
class Pickle:
    """What the opcodes of one pickle would make: lists, also for dictionaries and sets; tuples; what is called."""

    stack: list[Any] = field(default_factory=list)
    imports: Counter[tuple[str, str]] = field(default_factory=Counter)
    ended: str | None = None  # the unknown opcode that ended the reading
    _marks: list[int] = field(default_factory=list)
    _memo: dict[int, Any] = field(default_factory=dict)

    @property
    def root(self) -> Any:
        """What it would make; all that was made so far, where an unknown opcode ended the reading."""
        return self.stack if self.ended else self.stack[-1] if self.stack else None

    def follow(self, opcode: str, argument: Any) -> bool:
        """Do to the stack what CPython's Lib/pickletools.py says about the opcode; whether it is known here."""
        push, pop = self.stack.append, self.stack.pop
        match opcode:
            case "MARK":
                if len(self._marks) >= MOST_MARKS:
                    raise PickleError("is nested too deeply")
                self._marks.append(len(self.stack))
            case "PUT" | "BINPUT" | "LONG_BINPUT":
                self._memo[int(argument)] = self.stack[-1]
            case "MEMOIZE":
                self._memo[len(self._memo)] = self.stack[-1]
            case "GET" | "BINGET" | "LONG_BINGET":
                push(self._memo[int(argument)])
            case "EMPTY_LIST" | "EMPTY_SET" | "EMPTY_DICT":
                push([])
            case "EMPTY_TUPLE":
                push(())
            case "TUPLE1" | "TUPLE2" | "TUPLE3":
                push(tuple(self._top(int(opcode[-1]))))
            case "TUPLE":
                push(tuple(self._marked()))
            case "LIST" | "FROZENSET":
                push(self._marked())
            case "DICT":
                push(_pairs(self._marked()))
            case "APPEND" | "BUILD":
                self._put([pop()])
            case "APPENDS" | "ADDITEMS":
                self._put(self._marked())
            case "SETITEM":
                self._put(_pairs(self._top(2)))
            case "SETITEMS":
                self._put(_pairs(self._marked()))
            case "GLOBAL":
                push(self._imported(*argument.split(" ", 1)))
            case "STACK_GLOBAL":
                push(self._imported(*self._top(2)))
            case "EXT1" | "EXT2" | "EXT4":
                push(self._imported("copyreg", f"extension {argument}"))
            case "INST":
                push(Called(self._imported(*argument.split(" ", 1)), tuple(self._marked())))
            case "OBJ":
                function, *arguments = self._marked()
                push(Called(function, tuple(arguments)))
            case "REDUCE" | "NEWOBJ":
                push(Called(*self._top(2)))
            case "NEWOBJ_EX":
                function, arguments, keywords = self._top(3)
                push(Called(function, arguments, [keywords]))
            case "PERSID":
                push(Persistent(argument))
            case "BINPERSID":
                push(Persistent(pop()))
            case "POP" if self._marks and self._marks[-1] == len(self.stack):
                self._marks.pop()
            case "POP":
                pop()
            case "POP_MARK":
                self._marked()
            case "DUP":
                push(self.stack[-1])
            case "NONE" | "NEWTRUE" | "NEWFALSE":
                push(None)
            case "PROTO" | "FRAME" | "STOP" | "READONLY_BUFFER":
                pass
            case _ if opcode in VALUES:
                push(argument)
            case _:
                return False
        return True

    def _marked(self) -> list[Any]:
        """What was put on the stack since the last mark."""
        return self._top(len(self.stack) - self._marks.pop())

    def _top(self, count: int) -> list[Any]:
        if not 0 <= count <= len(self.stack):
            raise PickleError("is not a whole pickle: its stack is empty")
        at = len(self.stack) - count
        values = self.stack[at:]
        del self.stack[at:]
        return values

    def _put(self, items: list[Any]) -> None:
        """Put items, pairs or a state into what is on top of the stack."""
        target = self.stack[-1]
        if isinstance(target, Called):
            target = target.inside
        if isinstance(target, list):
            target += items

    def _imported(self, module: Any, name: Any) -> Global:
        named = isinstance(module, str) and isinstance(name, str)  # else another call makes the name
        imported = Global(module, name) if named else Global("?", "?")
        self.imports[imported] += 1
        return imported


VALUES = frozenset(op.name for op in pickletools.opcodes if op.arg and not op.stack_before and op.stack_after)
"""Opcodes that put their own argument on the stack, besides those above."""
UNKNOWN_OPCODE = re.compile(r"opcode (.+) unknown$")
"""What pickletools says about a byte that is none."""


def _pairs(items: list[Any]) -> list[Any]:
    return [Pair(key, value) for key, value in zip(items[::2], items[1::2], strict=True)]


def followed(stream: Any) -> Pickle:
    """The opcodes of one pickle, to its end or to the first that is unknown; ``stream`` then stands behind it."""
    pickle = Pickle()
    try:
        for count, (opcode, argument, _) in enumerate(pickletools.genops(stream)):
            if count >= MOST_OPCODES:
                raise PickleError(f"has more than {MOST_OPCODES:,} opcodes")
            if not pickle.follow(opcode.name, argument):
                pickle.ended = opcode.name
                break
    except PickleError:
        raise
    except (IndexError, KeyError, AttributeError, TypeError, ValueError, OverflowError) as error:
        unknown = UNKNOWN_OPCODE.search(str(error))
        if unknown is None:
            raise PickleError(f"is not a whole pickle: {error}") from error
        pickle.ended = unknown[1]
    return pickle


def walked(root: Any) -> Iterator[tuple[str, Called]]:
    """What is called anywhere in ``root``, with its path in dictionaries, each once."""
    waiting: list[tuple[str, Any]] = [("", root)]
    seen: set[int] = set()
    while waiting:
        path, value = waiting.pop()
        if isinstance(value, Pair):
            waiting.append((_joined(path, value.key), value.value))
        elif isinstance(value, Called | list | tuple) and id(value) not in seen:
            seen.add(id(value))
            if isinstance(value, Called):
                yield path, value
                value = [value.arguments, *value.inside]
            waiting += [(path, inner) for inner in reversed(value)]


def _joined(path: str, key: Any) -> str:
    if not isinstance(key, str) or len(path) + len(key) > LONGEST_PATH:
        return path
    return f"{path}.{key}" if path else key


def kind_of(module: str, name: str) -> Kind:
    """What importing ``module.name`` from a pickle means: by an exact list, since anything else may lead to code."""
    module = "builtins" if module == "__builtin__" else module  # Python 2's name of it, in pickles of protocol 2
    return "weights" if "." not in name and f"{module}.{name}" in WEIGHTS else "code"


def read_pickled(path: Path) -> ReadFile:
    """What a checkpoint of ``torch.save`` holds; a pickle of anything else has no tensors."""
    stream, size = open_regular(path)
    with stream:
        zipped = stream.read(len(ZIP)) == ZIP
        stream.seek(0)
        try:
            pickle, places = _zipped(stream, size) if zipped else (_plain(stream), None)
            tensors = list(_tensors(pickle.root, places))
            if pickle.ended and not pickle.imports:
                raise PickleError(f"is not a whole pickle: torch does not write its opcode {pickle.ended}")
        except PickleError as error:
            hint = "Nothing was loaded. Where you trust it, save its weights as safetensors."
            raise damaged(path, printable(str(error)), hint) from error
    notes = []
    if pickle.ended:
        notes = [f"'{printable(path.name)}' is read up to the opcode {pickle.ended}, which torch does not write"]
    return ReadFile(path, "pickle", size, tensors, imports=dict(pickle.imports), notes=notes)


def _zipped(stream: IO[bytes], size: int) -> tuple[Pickle, Mapping[str, int]]:
    """The pickle in a zip file, and the size of each storage by its key."""
    if _directory_bytes(stream, size) > LARGEST_DIRECTORY:
        raise PickleError(f"has a list of files of more than {LARGEST_DIRECTORY:,} bytes")
    try:
        with zipfile.ZipFile(stream) as archive:
            infos = archive.infolist()
            record = next((info for info in infos if info.filename.rpartition("/")[2] == RECORD), None)
            if record is None:
                raise PickleError("is a zip file, and no checkpoint of torch.save: it has no data.pkl")
            if record.filename.count("/") > 1 or record.file_size > LARGEST_PICKLE:
                raise PickleError(f"has a pickle of {record.file_size:,} bytes, more than {LARGEST_PICKLE:,}")
            with archive.open(record) as opened:
                data = opened.read(LARGEST_PICKLE)  # and no more than ``file_size``, however much is compressed
    except PickleError:
        raise
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, OSError, EOFError, ValueError) as error:
        raise PickleError(f"is cut off or damaged: {error}") from error
    folder = record.filename.removesuffix(RECORD) + "data/"
    storages = [info for info in infos if info.filename.startswith(folder)]
    if any(info.compress_type != zipfile.ZIP_STORED for info in storages):
        raise PickleError("has compressed tensors, which torch.save does not write")
    return followed(io.BytesIO(data)), {info.filename.removeprefix(folder): info.file_size for info in storages}


def _directory_bytes(stream: IO[bytes], size: int) -> int:
    """What the end of a zip file says about its list of files, which is read as a whole (PKWARE's APPNOTE, 4.3)."""
    stream.seek(max(0, size - 66_000))
    tail = stream.read()
    stream.seek(0)
    place = tail.rfind(END_OF_ZIP)
    if place < 0 or len(tail) - place < 22:
        raise PickleError("is cut off: a zip file without its list of files")
    length: int = struct.unpack_from("<I", tail, place + 12)[0]
    if place >= 76 and tail[place - 20 :].startswith(LOCATOR) and tail[place - 76 :].startswith(END_64):
        length = struct.unpack_from("<Q", tail, place - 76 + 40)[0]
    return length


class _Bounded:
    """A stream that ends after ``LARGEST_PICKLE`` bytes: an opcode may ask for as many as it likes."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream, self._left = stream, LARGEST_PICKLE

    def read(self, count: int) -> bytes:
        return self._counted(self._stream.read(min(count, self._left)))

    def readline(self) -> bytes:
        return self._counted(self._stream.readline(self._left))

    def _counted(self, data: bytes) -> bytes:
        self._left -= len(data)
        return data


def _plain(stream: IO[bytes]) -> Pickle:
    """A pickle that is no zip file: of the older format, what follows the pickles of its header."""
    bounded = _Bounded(stream)
    first = followed(bounded)
    if first.root != MAGIC:
        return first
    version, types = followed(bounded), followed(bounded)
    if version.ended or types.ended:
        raise PickleError("is not a whole pickle: its header is damaged")
    return followed(bounded)


def _tensors(root: Any, places: Mapping[str, int] | None) -> Iterator[StoredTensor]:
    """The tensors, each storage once; ``places`` has the size of each in the file."""
    seen: set[str] = set()
    for path, call in walked(root):
        function = ".".join(call.function) if isinstance(call.function, Global) else ""
        if function not in REBUILT:
            continue
        arguments = call.arguments if isinstance(call.arguments, tuple) else ()
        dtype, key, values = _storage(arguments[0] if arguments else None)
        if key in seen:
            continue
        seen.add(key)
        size = values * BITS[dtype] // 8
        if places is not None and places.get(key, -1) < size:
            raise PickleError(f"is cut off or damaged: the storage '{printable(key)}' is not whole")
        named = arguments[DTYPE_AT] if function == WITH_DTYPE and len(arguments) > DTYPE_AT else None
        if isinstance(named, Global) and named.name in BITS:
            dtype = named.name
        yield StoredTensor(path, dtype, size * 8 // BITS[dtype], size)


def _storage(reference: Any) -> tuple[str, str, int]:
    """Dtype, key and number of elements of a persistent id of torch: ``("storage", class, key, place, elements)``."""
    match reference:
        case Persistent((_, Global(name=name), str(key), _, int(values), *_)) if name in STORAGES:
            if not isinstance(values, bool) and 0 <= values < LARGEST_NUMBER:
                return STORAGES[name], key, values
    raise PickleError("has a tensor without a storage")
