"""Checkpoints that ``torch.save`` wrote, in both of its formats: sizes and dtypes from the opcodes, never loaded."""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal

from mpsprobe.suggestions import printable
from mpsprobe_hf.checkpoint.dtypes import BITS, STORAGES
from mpsprobe_hf.checkpoint.opcodes import Called, Global, Persistent, Pickle, PickleError, walked
from mpsprobe_hf.checkpoint.reading import LARGEST_NUMBER, MEBIBYTE, ReadFile, StoredTensor, damaged, open_regular

ZIP = b"PK\x03\x04"
MAGIC = 0x1950A86A20F9469CFC6C
"""The first pickle of the older format (``MAGIC_NUMBER`` in torch/serialization.py)."""
LARGEST_PICKLE = 64 * MEBIBYTE
"""Bytes of the opcodes; the tensors' values are not among them."""
LARGEST_DIRECTORY = 16 * MEBIBYTE
"""Bytes of a zip file's list of files: some 200,000 tensors."""
RECORD = "data.pkl"
END_OF_ZIP, END_64, LOCATOR = b"PK\x05\x06", b"PK\x06\x06", b"PK\x06\x07"
REBUILT = frozenset(
    f"torch._utils.{name}"
    for name in ("_rebuild_tensor", "_rebuild_tensor_v2", "_rebuild_tensor_v3", "_rebuild_qtensor")
)
"""Functions that make a tensor of a storage, their first argument."""
WITH_DTYPE = "torch._utils._rebuild_tensor_v3"
DTYPE_AT = 6  # of that function's arguments

Kind = Literal["weights", "code"]
_REBUILD = (
    "device_tensor_from_cpu_tensor", "device_tensor_from_numpy", "meta_tensor_no_storage", "nested_tensor", "parameter",
    "parameter_with_state", "qtensor", "sparse_tensor", "tensor", "tensor_v2", "tensor_v3", "wrapper_subclass",
)  # fmt: skip
_SCHEMES = (
    "per_channel_affine", "per_channel_affine_float_qparams", "per_channel_symmetric", "per_tensor_affine",
    "per_tensor_symmetric",
)  # fmt: skip
_BARE_BITS = (
    "bits16",
    "bits1x8",
    "bits2x4",
    "bits4x2",
    "bits8",
    *(f"{u}int{n}" for u in ("", "u") for n in range(1, 8)),
)
_NUMBERS = ("BFloat16", "Byte", "Char", "Double", "Float", "Half", "Int", "Long", "Short")
WEIGHTS = frozenset(
    {
        "collections.OrderedDict", "collections.Counter", "torch.nn.parameter.Parameter", "torch.Size", "torch.Tensor",
        "torch.serialization._get_layout", "torch.device", "_codecs.encode", "torch._tensor._rebuild_from_type_v2",
        "builtins.bytearray", "builtins.set", "builtins.complex", "torch.storage.TypedStorage",
        "torch.storage.UntypedStorage",
        *(f"torch._utils._rebuild_{name}" for name in _REBUILD),
        *(f"torch.{name}" for name in (*BITS, *_BARE_BITS, *_SCHEMES)),
        *(f"torch.{name}" for name in STORAGES.keys() - {"UntypedStorage"}),
        *(f"torch.cuda.{name}Storage" for name in (*_NUMBERS, "Bool", "ComplexDouble", "ComplexFloat")),
        *(f"torch.{place}{name}Tensor" for place in ("", "cuda.") for name in (*_NUMBERS, "Bool")),
        *(f"torch.{place}sparse.{name}Tensor" for place in ("", "cuda.") for name in _NUMBERS),
    }
)  # fmt: skip
"""What ``torch.load`` allows by default (``_get_allowed_globals`` in torch/_weights_only_unpickler.py, 2.13)."""


@dataclass(frozen=True, slots=True)
class Storage:
    """Memory that tensors share.

    Attributes:
        dtype: of its elements.
        key: its name in the file.
        values: its elements.
    """

    dtype: str
    key: str
    values: int

    @property
    def bytes(self) -> int:
        """Its size."""
        return self.values * BITS[self.dtype] // 8


def kind_of(module: str, name: str) -> Kind:
    """What importing ``module.name`` from a pickle means: by an exact list, since anything else may lead to code."""
    module = "builtins" if module == "__builtin__" else module  # Python 2's name of it, in pickles of protocol 2
    return "weights" if "." not in name and f"{module}.{name}" in WEIGHTS else "code"


def read_pickled(path: Path) -> ReadFile:
    """What a checkpoint of ``torch.save`` holds; a pickle of anything else has no tensors.

    Raises:
        WorkloadError: it is no pickle, damaged, or larger than any checkpoint's.
    """
    stream, size = open_regular(path)
    with stream:
        zipped = stream.read(len(ZIP)) == ZIP
        stream.seek(0)
        try:
            pickle, places = _zipped(path, stream, size) if zipped else _plain(stream)
            tensors = list(_tensors(pickle.root, places))
        except PickleError as error:
            hint = "Nothing was loaded. Where you trust it, save its weights as safetensors."
            raise damaged(path, printable(str(error)), hint) from error
    imports = {(one.module, one.name): count for one, count in pickle.imports.items()}
    return ReadFile(path, "pickle", size, tensors, imports=imports)


def _zipped(path: Path, stream: IO[bytes], size: int) -> tuple[Pickle, Mapping[str, int]]:
    """The pickle in a zip file, and the size of each storage by its key."""
    if _directory_bytes(stream, size) > LARGEST_DIRECTORY:
        raise PickleError(f"has a list of files of more than {LARGEST_DIRECTORY:,} bytes")
    try:
        with zipfile.ZipFile(stream) as archive:
            infos = archive.infolist()
            record = next((one for one in infos if one.filename.rpartition("/")[2] == RECORD), None)
            if record is None:
                raise PickleError("is a zip file, and no checkpoint of torch.save: it has no data.pkl")
            if record.filename.count("/") > 1 or record.file_size > LARGEST_PICKLE:
                raise PickleError(f"has a pickle of {record.file_size:,} bytes, more than {LARGEST_PICKLE:,}")
            with archive.open(record) as opened:
                data = opened.read(LARGEST_PICKLE + 1)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, OSError, EOFError, ValueError) as error:
        if isinstance(error, PickleError):
            raise
        raise PickleError(f"is cut off or damaged: {error}") from error
    if len(data) > LARGEST_PICKLE:
        raise PickleError(f"has a pickle of more than {LARGEST_PICKLE:,} bytes")
    folder = record.filename.removesuffix(RECORD) + "data/"
    if any(one.compress_type != zipfile.ZIP_STORED for one in infos if one.filename.startswith(folder)):
        raise PickleError("has compressed tensors, which torch.save does not write")
    places = {one.filename.removeprefix(folder): one.file_size for one in infos if one.filename.startswith(folder)}
    return Pickle(io.BytesIO(data)), places


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
    """A stream that ends after so many bytes: what ``pickletools`` reads from, and no more than that."""

    def __init__(self, stream: IO[bytes], most: int) -> None:
        self._stream, self._left = stream, most

    def read(self, count: int) -> bytes:
        """The next ``count`` bytes, or what is left."""
        return self._counted(self._stream.read(min(count, self._left)))

    def readline(self) -> bytes:
        """The next line, or what is left of it."""
        return self._counted(self._stream.readline(self._left))

    def _counted(self, data: bytes) -> bytes:
        self._left -= len(data)
        return data


def _plain(stream: IO[bytes]) -> tuple[Pickle, None]:
    """A pickle that is no zip file: of the older format, what follows the pickles of its header."""
    bounded = _Bounded(stream, LARGEST_PICKLE)
    first = Pickle(bounded)
    if isinstance(first.root, int) and first.root == MAGIC:
        Pickle(bounded)  # the version of the format
        Pickle(bounded)  # byte order and sizes of types
        return Pickle(bounded), None
    return first, None


def _tensors(root: Any, places: Mapping[str, int] | None) -> Iterator[StoredTensor]:
    """The tensors, each storage once; ``places`` has the size of each in the file."""
    seen: set[str] = set()
    for path, one in walked(root):
        if not isinstance(one, Called) or str(one.function) not in REBUILT or not isinstance(one.function, Global):
            continue
        arguments = one.arguments if isinstance(one.arguments, tuple) else ()
        storage = _storage(arguments[0] if arguments else None)
        if storage is None:
            raise PickleError("has a tensor without a storage")
        if storage.key in seen:
            continue
        seen.add(storage.key)
        if places is not None and places.get(storage.key, -1) < storage.bytes:
            raise PickleError(f"is cut off or damaged: the storage '{printable(storage.key)}' is not whole")
        dtype = storage.dtype
        if str(one.function) == WITH_DTYPE and len(arguments) > DTYPE_AT and isinstance(arguments[DTYPE_AT], Global):
            named = arguments[DTYPE_AT].name
            dtype = named if named in BITS else dtype
        yield StoredTensor(path, dtype, storage.bytes * 8 // BITS[dtype], storage.bytes)


def _storage(reference: Any) -> Storage | None:
    """What a persistent id of torch stands for: ``("storage", class, key, place, elements)``."""
    key = reference.key if isinstance(reference, Persistent) else None
    if not isinstance(key, tuple) or len(key) < 5 or not isinstance(key[1], Global):
        return None
    dtype, name, values = STORAGES.get(key[1].name), key[2], key[4]
    if dtype is None or not isinstance(name, str) or type(values) is not int or not 0 <= values < LARGEST_NUMBER:
        return None
    return Storage(dtype, name, values)
