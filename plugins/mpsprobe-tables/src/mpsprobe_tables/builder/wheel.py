"""A macOS wheel of torch, torchvision or tensorflow-metal, opened as the zip file that it is.

Only members with known names are read, into memory or into a file or folder that the caller names, each up to a size
limit: nothing in the wheel says where something is written. Nothing of it is imported here (see ``expectations``).
"""

from __future__ import annotations

import csv
import functools
import hashlib
import re
import zipfile
import zlib
from collections.abc import Iterator
from email.parser import HeaderParser
from pathlib import Path
from types import TracebackType

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from packaging.version import Version

from mpsprobe.errors import TableError
from mpsprobe.output import TemporaryFolder
from mpsprobe.suggestions import printable
from mpsprobe_tables.builder.macho import MachO

LARGEST_TEXT = 16 << 20  # bytes; native_functions.yaml has 0.6 MB
LARGEST_PYTHON = 1 << 20  # bytes that are parsed, which takes a hundred times as many; 2.13.0 has 15 kB of such files
LARGEST_LIBRARY = 2 << 30  # bytes; libtorch_cpu.dylib of 2.15.0 has 0.42 GB
LARGEST_RATIO = 16  # unpacked to packed, of all files; wheels of torch have 4
NO_BOMB = 16 << 20  # bytes unpacked, up to which nobody asks for the ratio
LEAST_CODE = 1 << 20  # bytes of instructions that are looked at in any library
CODE_RATIO = 4  # bytes of a wheel for each; that of torch 2.13.0 has 11
MOST_REQUIREMENTS = 1_000  # torch has 30
METAL = "tensorflow-metal"
LIBRARIES = {
    "torch": r"torch/lib/libtorch_cpu\.dylib",
    "torchvision": r"torchvision/_C(_stable)?(\.[\w-]+)?\.so",
    METAL: r"(tensorflow_metal-[\d.]+\.data/purelib/)?tensorflow-plugins/libmetal_plugin\.dylib",
}
ARCHITECTURES = {METAL: "arm64|x86_64"}
BINDINGS = "torch/lib/libtorch_python.dylib"
READ_ERRORS = (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, NotImplementedError, RuntimeError)


class Wheel:
    """An open wheel; a context manager.

    Raises TableError: the file is not a wheel, is broken, or is another one than a macOS wheel of these.

    Attributes:
        library: ``torch``, ``torchvision`` or ``tensorflow-metal``.
        architecture: ``arm64``; of tensorflow-metal also ``x86_64``.
        release: its version, without a local part.
        requires_torch: the torch releases that its metadata asks for (``==2.13.0``); empty for torch itself.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._shown = printable(path.name)
        try:
            name, version, _, tags = parse_wheel_filename(path.name)
        except InvalidWheelFilename as error:
            raise TableError(f"'{self._shown}' is not the file name of a wheel") from error
        platform = rf"macosx_\d+_\d+_({ARCHITECTURES.get(str(name), 'arm64')})"
        matches = [match[1] for tag in tags if (match := re.fullmatch(platform, tag.platform))]
        if name not in LIBRARIES or not matches:
            raise TableError(
                f"'{self._shown}' is not a macOS arm64 wheel of torch or torchvision",
                "Only what Mac users install has MPS kernels: its name ends with 'macosx_…_arm64.whl'.",
            )
        self.library: str = str(name)
        self.architecture = matches[0]
        self.release = version.public
        self._info = rf"{name.replace('-', '_')}-[^/]+\.dist-info"
        try:
            self._zip = zipfile.ZipFile(path)
        except (*READ_ERRORS,) as error:
            raise TableError(f"'{self._shown}' cannot be read: {error}", "Download the wheel again.") from error
        try:
            # Not ``is_dir``: it raises where a name is empty.
            infos = [info for info in self._zip.infolist() if not info.filename.endswith("/")]
            self._members = {info.filename: info for info in infos}
            unpacked = sum(info.file_size for info in infos)
            if unpacked > max(NO_BOMB, LARGEST_RATIO * path.stat().st_size):
                raise TableError(f"'{self._shown}' unpacks to more than {LARGEST_RATIO} times its size: it is no wheel")
            self._check_record()
            self.requires_torch = self._check_metadata(version)
        except BaseException:
            self._zip.close()
            raise

    def __enter__(self) -> Wheel:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._zip.close()

    def _check_record(self) -> None:
        """A wheel lists its own files: one that is missing, or was renamed by a damaged byte, must not go unnoticed."""
        members = [m for m in self._members if re.fullmatch(rf"{self._info}/RECORD", m)]
        if len(members) != 1:
            raise TableError(
                f"'{self._shown}' has no list of the files of {self.library}: it is another wheel, renamed"
            )
        try:
            listed = {row[0] for row in csv.reader(self.text(members[0]).splitlines()) if row}
        except csv.Error as error:
            raise self._unreadable(members[0], error) from error
        if listed != set(self._members):
            raise TableError(f"'{self._shown}' does not have the files that it lists", "Download the wheel again.")

    def _check_metadata(self, version: Version) -> str:
        metadata = [m for m in self._members if re.fullmatch(rf"{self._info}/METADATA", m)]
        if len(metadata) != 1:
            raise TableError(f"'{self._shown}' has no metadata of {self.library}: it is another wheel, renamed")
        fields = HeaderParser().parsestr(self.text(metadata[0]))
        if (fields["Name"], fields["Version"]) != (self.library, str(version)):
            raise TableError(f"'{self._shown}' contains {fields['Name']} {fields['Version']}")
        requirements = fields.get_all("Requires-Dist", [])
        if len(requirements) > MOST_REQUIREMENTS:
            raise TableError(
                f"'{self._shown}' has more than {MOST_REQUIREMENTS:,} requirements: it is no wheel of torch"
            )
        for requirement in requirements:
            try:
                parsed = Requirement(requirement)
            except InvalidRequirement as error:
                raise TableError(f"'{self._shown}' has broken metadata: {printable(requirement)}") from error
            if parsed.name == "torch":
                return str(parsed.specifier)
        return ""

    @functools.cached_property
    def binary(self) -> MachO:
        """The library that registers the kernels, parsed. Raises TableError: the wheel has none, or a broken one."""
        return self._parsed(self._library())

    @functools.cached_property
    def python_binary(self) -> MachO | None:
        """The library with torch's Python bindings, parsed; None where there is none. Raises as ``binary``."""
        return self._parsed(BINDINGS) if self.has(BINDINGS) else None

    def _parsed(self, member: str) -> MachO:
        with TemporaryFolder() as folder:
            path = Path(folder) / "library"
            self._extract(member, path)
            return MachO(path, max(LEAST_CODE, self.path.stat().st_size // CODE_RATIO))

    @functools.cached_property
    def sha256(self) -> str:
        """Of the whole file, in hexadecimal."""
        digest = hashlib.sha256()
        with self.path.open("rb") as file:
            while chunk := file.read(1 << 20):
                digest.update(chunk)
        return digest.hexdigest()

    def has(self, member: str) -> bool:
        return member in self._members

    def text(self, member: str) -> str:
        """A text member. Raises ``TableError`` when it is absent, too large, broken or not UTF-8."""
        info = self._member(member, LARGEST_TEXT)
        try:
            with self._zip.open(info) as source:
                return source.read(LARGEST_TEXT).decode("utf-8")
        except READ_ERRORS as error:
            raise self._unreadable(member, error) from error

    def python_files(self, parts: tuple[bytes, ...]) -> Iterator[tuple[str, str]]:
        """Name and text of the library's Python files that contain one of ``parts``; its tests are left out."""
        tests, count = f"{self.library}/testing/", 0
        for member in sorted(self._members):
            if member.startswith(f"{self.library}/") and member.endswith(".py") and not member.startswith(tests):
                info = self._member(member, LARGEST_TEXT)
                try:
                    content = self._zip.read(info)
                except READ_ERRORS as error:
                    raise self._unreadable(member, error) from error
                if any(part in content for part in parts):
                    count += len(content)
                    if count > LARGEST_PYTHON:
                        raise TableError(f"'{self._shown}' has too much Python for MPS: over {LARGEST_PYTHON:,} bytes")
                    yield member, content.decode("utf-8", "replace")

    def unpack(self, below: str, ending: str, folder: Path) -> None:
        """Write the text members whose names begin with ``below`` and end with ``ending`` into ``folder``.

        Raises TableError: one is too large or broken.
        """
        for member in self._members:
            if member.startswith(below) and member.endswith(ending) and ".." not in member and "\\" not in member:
                target = folder / member
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(self.text(member), encoding="utf-8")

    def extract_library(self, target: Path) -> None:
        """Write the library that registers the kernels to ``target``. Raises as ``binary``."""
        self._extract(self._library(), target)

    def _library(self) -> str:
        pattern = re.compile(LIBRARIES[self.library])
        members = [member for member in self._members if pattern.fullmatch(member)]
        if len(members) != 1:
            raise TableError(f"'{self._shown}' has no library of {self.library}, or several")
        return members[0]

    def _extract(self, member: str, target: Path) -> None:
        info = self._member(member, LARGEST_LIBRARY)
        written = 0
        try:
            with self._zip.open(info) as source, target.open("wb") as file:
                while chunk := source.read(1 << 20):
                    written += len(chunk)
                    if written > LARGEST_LIBRARY:
                        raise TableError(f"{member} in '{self._shown}' is larger than it says")
                    file.write(chunk)
        except READ_ERRORS as error:
            raise self._unreadable(member, error) from error

    def _member(self, member: str, limit: int) -> zipfile.ZipInfo:
        info = self._members.get(member)
        if info is None:
            raise TableError(f"'{self._shown}' lacks {member}")
        if info.file_size > limit:
            raise TableError(f"{member} in '{self._shown}' is too large: {info.file_size} bytes")
        return info

    def _unreadable(self, member: str, error: Exception) -> TableError:
        return TableError(f"{member} in '{self._shown}' cannot be read: {error}", "Download the wheel again.")
