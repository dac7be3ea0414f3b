"""What PyTorch's own tests expect of MPS, release by release, as read from the macOS wheels (2.8.0 on).

The test behind the lists is ``TestConsistency`` of PyTorch's test/test_mps.py: each OpInfo entry, each dtype that it
claims, each sample, on the CPU **and** on MPS, and the two compared. So an expected failure need not mean that MPS
refuses: the CPU may raise, or the numbers may differ.

The data files lie in ``data``: ``torch-V.expectations``, one for each release, each holding what changed
since the release before. The first line is ``mpsprobe-expectations 1 SHA256``, the digest of the rest, one document::

    {"base": "2.12.1", "release": "2.13.0", "wheel": …, "sha256": …, "macos": "newest", "kinds": {…}, "unread": […],
     "sections": {"forward UNIMPLEMENTED_XFAILLIST": {"*": "logspace put …", "bool": "median …", "": "gone …"}, …}}

A section groups entries by value: dtypes joined by spaces, ``*`` for all of them, ``-`` for none, ``""`` where the
entry is gone since the base. Sections that the base has and this file does not name at all are gone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from mpsprobe_coverage.knowledge.kernels.format import apply, by_name
from mpsprobe_tables.encoding import changed, seal
from mpsprobe_tables.own_files import OwnFiles, unsealed

MAGIC = "mpsprobe-expectations 1"
ALL = "*"
NONE = "-"
TESTED_DTYPES = frozenset(
    {"bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "complex64"}
)
"""What ``test_output_match`` is asked for on MPS, where the entry claims it."""
FORWARD_TEST = "test_output_match"
GRADIENT_TEST = "test_output_grad_match"
COMPLEX = ("complex32", "complex64")
REAL = ("float32", "float16", "bfloat16")
UNDEFINED = "UNDEFINED_XFAILLIST"
DECORATORS = "decorators"
"""What stands for a list where the entry itself says what is expected."""

DECORATOR = re.compile(r"(?P<kind>fail|skip) (?P<test>\S+) (?P<dtypes>[^\s;]+)")
"""An expectation that stands at the entry itself; several are parted by ``; ``, and the dtypes by commas."""

Kind = Literal["pass", "fail", "skip"]
KINDS = ("fail", "skip")


@dataclass(frozen=True, slots=True)
class Expected:
    """What the test of one entry with one dtype is expected to do, and which lists say so."""

    kind: Kind
    lists: tuple[str, ...] = ()


@dataclass(frozen=True)
class Expectations:
    """What one release expects; entries are named ``op.name + op.variant_test_name``, dtypes as in ``float32``."""

    release: str
    # wheel, sha256: where it was read
    wheel: str
    sha256: str
    kinds: Mapping[str, str]  # section (``forward UNIMPLEMENTED_XFAILLIST``) → ``fail`` or ``skip``
    # Section → entry → dtypes, as the files have them. ``forward LIST``, ``gradient LIST`` and ``error_inputs LIST``
    # are lists. ``supported_complex`` are the entries that pass with complex dtypes, where the release lists these,
    # ``unsupported_complex`` those that fail with them, where it lists those. ``claimed`` and ``claimed_backward`` have
    # the dtypes that MPS is tested with, where the entry gives them (2.11.0 on); else it is tested with those of the
    # CPU. ``decorators`` are expectations that stand at the entry itself. ``entries`` is every entry that was read,
    # ``elsewhere`` the names or variants of those that helper functions make, and that say nothing of MPS.
    sections: Mapping[str, Mapping[str, str]]

    def of(self, section: str) -> Mapping[str, str]:
        """The entries of a section; none where the release has no such section."""
        return self.sections.get(section, {})

    def everywhere(self) -> Iterator[str]:
        """The entries that some list of the forward test names with every dtype."""
        for section, listed in self.sections.items():
            if section.startswith("forward "):
                yield from (entry for entry, dtypes in listed.items() if dtypes == ALL)

    def expected(self, entry: str, dtype: str, gradient: bool = False) -> Expected:
        """What the consistency test of ``entry`` does with ``dtype``; a skip wins over a failure.

        The gradient test runs entries that carry the forward lists too, because its forward part fails with them. An
        entry whose numbers are undefined with every real dtype, being random, fails with complex ones for that too.
        """
        lists: dict[str, list[str]] = {"skip": [], "fail": []}
        for section in self._naming("forward ", entry, dtype):
            lists[self.kinds.get(section, "fail")].append(section.removeprefix("forward "))
        if dtype in COMPLEX:
            if "supported_complex" in self.sections and entry not in self.of("supported_complex"):
                undefined = self.of(f"forward {UNDEFINED}").get(entry, NONE)
                random = all(_holds(undefined, real) for real in REAL)
                lists["fail"].append(UNDEFINED if random else "SUPPORTED_COMPLEX_OPS")
            if entry in self.of("unsupported_complex"):
                lists["fail"].append("UNSUPPORTED_COMPLEX_OPS")
        if gradient:
            for section in self._naming("gradient ", entry, dtype):
                lists[self.kinds.get(section, "fail")].append(section)
        tests = ALL, GRADIENT_TEST if gradient else FORWARD_TEST
        for kind, test, dtypes in DECORATOR.findall(self.of(DECORATORS).get(entry, "")):
            if test in tests and _holds(dtypes.replace(",", " "), dtype):
                lists[kind].append(DECORATORS)
        if lists["skip"]:
            return Expected("skip", tuple(dict.fromkeys(lists["skip"])))
        if lists["fail"]:
            return Expected("fail", tuple(dict.fromkeys(lists["fail"])))
        return Expected("pass")

    def _naming(self, test: str, entry: str, dtype: str) -> Iterator[str]:
        """The lists of a test that name ``entry`` with ``dtype``."""
        for section, listed in self.sections.items():
            if section.startswith(test) and _holds(listed.get(entry, NONE), dtype):
                yield section

    def has(self, entry: str) -> bool:
        """Whether the release's database has ``entry``."""
        return entry in self.of("entries") or any(entry.endswith(name) for name in self.of("elsewhere"))

    def tests(self, entry: str, dtype: str, cpu_dtypes: Iterable[str]) -> bool:
        """Whether the release's test runs ``entry`` with ``dtype`` at all: it claims it, or the CPU does."""
        if dtype not in TESTED_DTYPES or not self.has(entry):
            return False
        claimed = self.of("claimed").get(entry)
        return dtype in (cpu_dtypes if claimed is None else claimed.split(" "))


def _holds(dtypes: str, dtype: str) -> bool:
    return dtypes == ALL or dtype in dtypes.split(" ")


def joined(dtypes: Iterable[str] | None) -> str:
    """Dtypes as the files have them; ``None`` is all of them."""
    return ALL if dtypes is None else " ".join(sorted(dtypes)) or NONE


def encode(expectations: Expectations, base: Expectations | None) -> bytes:
    """The data file of ``expectations`` when the release before it is ``base``; the same input gives the same bytes."""
    document: dict[str, Any] = {
        "base": None if base is None else base.release,
        "release": expectations.release,
        "wheel": expectations.wheel,
        "sha256": expectations.sha256,
        "macos": "newest",
        "kinds": dict(expectations.kinds),
        "unread": [],  # nothing is, since the lists are executed
        "sections": {
            section: changed(now, {} if base is None else base.of(section))
            for section, now in expectations.sections.items()
        },
    }
    return seal(MAGIC, document)


def decode(data: bytes, name: str, base: Expectations | None) -> Expectations:
    """A data file read back, on top of the release before; ``name`` is said in errors. Raises as ``unsealed``."""

    def read(document: Any) -> Expectations:
        kinds, sections = document["kinds"], {}
        if any(kind not in KINDS for kind in kinds.values()):
            raise ValueError("a list is of no kind")
        for section, groups in document["sections"].items():
            sections[section] = {} if base is None else dict(base.of(section))
            apply(by_name(groups), sections[section])
        return Expectations(document["release"], document["wheel"], document["sha256"], kinds, sections)

    return unsealed(MAGIC, data, name, base, read)


FILES = OwnFiles(".expectations", "expectations", decode, encode)
expectation_releases, load_expectations = FILES.releases, FILES.load
