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

from collections.abc import Iterable, Mapping
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

Dtypes = tuple[str, ...] | None
Kind = Literal["pass", "fail", "skip"]
KINDS = ("fail", "skip")


@dataclass(frozen=True, slots=True)
class Decorator:
    """An expectation that stands at the entry itself: ``fail`` or ``skip``; ``None`` is every test, or every dtype."""

    kind: str
    test: str | None
    dtypes: Dtypes

    def __str__(self) -> str:
        return f"{self.kind} {self.test or ALL} {_joined(self.dtypes).replace(' ', ',')}"

    @classmethod
    def read(cls, text: str) -> Decorator:
        """The other way round."""
        kind, test, dtypes = text.split(" ")
        if kind not in KINDS:
            raise ValueError(f"{kind!r} is no kind")
        return cls(kind, None if test == ALL else test, _split(dtypes.replace(",", " ")))


@dataclass(frozen=True, slots=True)
class Expected:
    """What the test of one entry with one dtype is expected to do, and which lists say so."""

    kind: Kind
    lists: tuple[str, ...] = ()


@dataclass(frozen=True)
class Expectations:
    """What one release expects; entries are named ``op.name + op.variant_test_name``, dtypes as in ``float32``.

    Attributes:
        wheel, sha256: where it was read.
        kinds: section (``forward UNIMPLEMENTED_XFAILLIST``) → ``fail`` or ``skip``.
        lists, gradient_lists, error_input_lists: name of a list → entry → dtypes, ``None`` for all.
        supported_complex: entries that pass with complex dtypes, where the release lists these.
        unsupported_complex: entries that fail with them, where it lists those.
        claimed: entry → the dtypes that MPS is tested with, where the entry gives them (2.11.0 on); else it is tested
            with those of the CPU.
        claimed_backward: the same for gradients.
        decorators: entry → expectations that stand at the entry itself.
        entries: every entry that was read.
        elsewhere: names or variants of entries that helper functions make, and that say nothing of MPS.
    """

    release: str
    wheel: str
    sha256: str
    kinds: Mapping[str, str]
    lists: Mapping[str, Mapping[str, Dtypes]]
    gradient_lists: Mapping[str, Mapping[str, Dtypes]]
    error_input_lists: Mapping[str, Mapping[str, Dtypes]]
    supported_complex: frozenset[str] | None
    unsupported_complex: frozenset[str] | None
    claimed: Mapping[str, tuple[str, ...]]
    claimed_backward: Mapping[str, tuple[str, ...]]
    decorators: Mapping[str, tuple[Decorator, ...]]
    entries: frozenset[str]
    elsewhere: frozenset[str]

    def expected(self, entry: str, dtype: str, gradient: bool = False) -> Expected:
        """What the consistency test of ``entry`` does with ``dtype``; a skip wins over a failure.

        The gradient test runs entries that carry the forward lists too, because its forward part fails with them. An
        entry whose numbers are undefined with every real dtype, being random, fails with complex ones for that too.
        """
        lists: dict[str, list[str]] = {"skip": [], "fail": []}
        for name, listed in self.lists.items():
            if _holds(listed, entry, dtype):
                lists[self.kinds.get(f"forward {name}", "fail")].append(name)
        if dtype in COMPLEX:
            if self.supported_complex is not None and entry not in self.supported_complex:
                random = all(_holds(self.lists.get(UNDEFINED, {}), entry, real) for real in REAL)
                lists["fail"].append(UNDEFINED if random else "SUPPORTED_COMPLEX_OPS")
            if self.unsupported_complex is not None and entry in self.unsupported_complex:
                lists["fail"].append("UNSUPPORTED_COMPLEX_OPS")
        if gradient:
            for name, listed in self.gradient_lists.items():
                if _holds(listed, entry, dtype):
                    lists[self.kinds.get(f"gradient {name}", "fail")].append(f"gradient {name}")
        test = GRADIENT_TEST if gradient else FORWARD_TEST
        for decorator in self.decorators.get(entry, ()):
            if decorator.test in (None, test) and (decorator.dtypes is None or dtype in decorator.dtypes):
                lists[decorator.kind].append(DECORATORS)
        if lists["skip"]:
            return Expected("skip", tuple(dict.fromkeys(lists["skip"])))
        if lists["fail"]:
            return Expected("fail", tuple(dict.fromkeys(lists["fail"])))
        return Expected("pass")

    def has(self, entry: str) -> bool:
        """Whether the release's database has ``entry``."""
        return entry in self.entries or any(entry.endswith(name) for name in self.elsewhere)

    def tests(self, entry: str, dtype: str, cpu_dtypes: Iterable[str]) -> bool:
        """Whether the release's test runs ``entry`` with ``dtype`` at all: it claims it, or the CPU does."""
        if dtype not in TESTED_DTYPES or not self.has(entry):
            return False
        return dtype in self.claimed.get(entry, tuple(cpu_dtypes))


def _holds(listed: Mapping[str, Dtypes], entry: str, dtype: str) -> bool:
    if entry not in listed:
        return False
    dtypes = listed[entry]
    return dtypes is None or dtype in dtypes


def encode(expectations: Expectations, base: Expectations | None) -> bytes:
    """The data file of ``expectations`` when the release before it is ``base``; the same input gives the same bytes."""
    before = {} if base is None else _sections(base)
    sections: dict[str, dict[str, str]] = {}
    for section, now in _sections(expectations).items():
        sections[section] = changed(now, before.get(section, {}))
    document: dict[str, Any] = {
        "base": None if base is None else base.release,
        "release": expectations.release,
        "wheel": expectations.wheel,
        "sha256": expectations.sha256,
        "macos": "newest",
        "kinds": dict(expectations.kinds),
        "unread": [],  # nothing is, since the lists are executed
        "sections": sections,
    }
    return seal(MAGIC, document)


def decode(data: bytes, name: str, base: Expectations | None) -> Expectations:
    """A data file read back, on top of the release before; ``name`` is said in errors. Raises as ``unsealed``."""

    def read(document: Any) -> Expectations:
        sections = {} if base is None else _sections(base)
        changes = {section: by_name(groups) for section, groups in document["sections"].items()}
        known = {section: dict(sections.get(section, {})) for section in changes}
        for section, changed_names in changes.items():
            apply(changed_names, known[section])
        return _from_sections(document, known)

    return unsealed(MAGIC, data, name, base, read)


def _sections(expectations: Expectations) -> dict[str, dict[str, str]]:
    """Section → entry → value, as the files have them."""
    sections: dict[str, dict[str, str]] = {}
    for kind, lists in (
        ("forward", expectations.lists),
        ("gradient", expectations.gradient_lists),
        ("error_inputs", expectations.error_input_lists),
    ):
        for name, listed in lists.items():
            sections[f"{kind} {name}"] = {entry: _joined(dtypes) for entry, dtypes in listed.items()}
    for name in ("supported_complex", "unsupported_complex", "entries", "elsewhere"):
        entries = getattr(expectations, name)
        if entries is not None:
            sections[name] = dict.fromkeys(entries, ALL)
    for name in ("claimed", "claimed_backward"):
        sections[name] = {entry: _joined(dtypes) for entry, dtypes in getattr(expectations, name).items()}
    sections[DECORATORS] = {entry: "; ".join(map(str, them)) for entry, them in expectations.decorators.items()}
    return sections


def _from_sections(header: Mapping[str, Any], sections: Mapping[str, Mapping[str, str]]) -> Expectations:
    def lists(kind: str) -> dict[str, dict[str, Dtypes]]:
        return {
            section.removeprefix(f"{kind} "): {entry: _split(value) for entry, value in listed.items()}
            for section, listed in sections.items()
            if section.startswith(f"{kind} ")
        }

    def names(section: str) -> frozenset[str] | None:
        return frozenset(sections[section]) if section in sections else None

    if any(kind not in KINDS for kind in header["kinds"].values()):
        raise ValueError("a list is of no kind")
    return Expectations(
        release=header["release"],
        wheel=header["wheel"],
        sha256=header["sha256"],
        kinds=dict(header["kinds"]),
        lists=lists("forward"),
        gradient_lists=lists("gradient"),
        error_input_lists=lists("error_inputs"),
        supported_complex=names("supported_complex"),
        unsupported_complex=names("unsupported_complex"),
        claimed={entry: _split(value) or () for entry, value in sections["claimed"].items()},
        claimed_backward={entry: _split(value) or () for entry, value in sections["claimed_backward"].items()},
        decorators={
            entry: tuple(Decorator.read(text) for text in value.split("; "))
            for entry, value in sections[DECORATORS].items()
        },
        entries=names("entries") or frozenset(),
        elsewhere=names("elsewhere") or frozenset(),
    )


def _joined(dtypes: Dtypes) -> str:
    return ALL if dtypes is None else " ".join(sorted(dtypes)) or NONE


def _split(value: str) -> Dtypes:
    if value == NONE:
        return ()
    return None if value == ALL else tuple(value.split())


FILES = OwnFiles(".expectations", "expectations", decode, encode)
expectation_releases, load_expectations = FILES.releases, FILES.load
