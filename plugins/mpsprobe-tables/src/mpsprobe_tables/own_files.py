"""The data files of this package: of each kind one for each release, holding what changed since the release before."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, TypeVar

from packaging.version import Version

from mpsprobe.errors import TableError, UnknownName
from mpsprobe_coverage.knowledge.kernels.format import unseal

DATA = Path(__file__).parent / "data"
REINSTALL = "Reinstall the package: pip install --force-reinstall --no-deps mpsprobe-tables"
PREFIX = "torch-"
T = TypeVar("T")


class OwnFiles(Generic[T]):
    """One kind of them.

    Args:
        suffix: of their names.
        what: what errors call a release that has one.
        decode: data, name and what the release before has, or None → what this release has.
        encode: the other way round; the same input gives the same bytes.
    """

    def __init__(
        self,
        suffix: str,
        what: str,
        decode: Callable[[bytes, str, T | None], T],
        encode: Callable[[T, T | None], bytes],
    ) -> None:
        self.name, self.encode = f"{PREFIX}{{}}{suffix}", encode
        self._suffix, self._what, self._decode = suffix, what, decode
        self._releases: tuple[str, ...] = ()
        self._read: dict[str, T] = {}

    def releases(self) -> tuple[str, ...]:
        """The torch releases that have one, oldest first."""
        if not self._releases:
            names = (entry.name for entry in DATA.iterdir() if entry.name.endswith(self._suffix))
            found = (name.removeprefix(PREFIX).removesuffix(self._suffix) for name in names)
            self._releases = tuple(sorted(found, key=Version))
        return self._releases

    def load(self, release: str) -> T:
        """What one release has. Raises UnknownName: there is no file of it; TableError: a file is damaged."""
        known = self.releases()
        if release not in known:
            raise UnknownName(f"torch release with {self._what}", release, known)
        for before, earlier in zip((None, *known), known[: known.index(release) + 1], strict=False):
            if earlier not in self._read:
                name = self.name.format(earlier)
                try:
                    data = (DATA / name).read_bytes()
                except OSError as error:
                    raise TableError(f"the data file {name} cannot be read: {error}", REINSTALL) from error
                self._read[earlier] = self._decode(data, name, None if before is None else self._read[before])
        return self._read[release]


def unsealed(magic: str, data: bytes, name: str, base: Any, read: Callable[[Any], T]) -> T:
    """What ``read`` makes of the document in ``data``, which has to be one on top of ``base``.

    Raises TableError: the file is truncated, changed, of another format, or does not fit the base.
    """

    def fitting(document: Any) -> T:
        if document["base"] != (None if base is None else base.release):
            raise TableError(f"the data file {name} does not fit", REINSTALL)
        return read(document)

    return unseal(magic, data, name, fitting, REINSTALL)
