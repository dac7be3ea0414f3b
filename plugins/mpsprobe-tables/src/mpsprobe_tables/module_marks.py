"""What PyTorch's tests of modules expect of MPS, release by release, as read from the macOS wheels (2.1.0 on).

``TestModule`` of PyTorch's test/test_modules.py runs each entry of ``module_db``, in train and eval mode, on Macs too
since 2.1. The entries carry *marks*: decorators that say that a test fails on MPS, strictly, or is skipped there.

The data files lie in ``data``: ``torch-V.modules``, one for each release, each holding what changed since the release
before. The first line is ``mpsprobe-module-marks 1 SHA256``, the digest of the rest, one document::

    {"base": "2.12.1", "release": "2.13.0", "wheel": …, "sha256": …, "dtypes": ["float16", "float32"],
     "modules": {"-": "nn.AvgPool1d nn.CELU …", "skip TestModule * * *": "nn.Conv3d …", …}}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from mpsprobe_coverage.knowledge.kernels.format import apply, by_name
from mpsprobe_tables.encoding import changed, seal
from mpsprobe_tables.expectations import ALL
from mpsprobe_tables.own_files import OwnFiles, unsealed

MAGIC = "mpsprobe-module-marks 1"
UNMARKED = "-"
TEST_CLASS = "TestModule"
"""The class whose tests a mark is looked up for: the generic one, also where the tests of a device run."""
FORWARD_TEST = "test_forward"
GRADIENT_TEST = "test_non_contiguous_tensors"
"""The test of ``TestModule`` that computes gradients for every module and in both modes on MPS; ``test_grad`` is for
float64 alone."""

Mode = Literal["train", "eval"]


@dataclass(frozen=True, slots=True)
class Mark:
    """One decorator of an entry that says something of MPS; ``None`` is every test, dtype or mode.

    Attributes:
        kind: ``fail`` or ``skip``.
        in_class: the class of tests that it names; with another than ``TEST_CLASS`` it never acts.
    """

    kind: str
    in_class: str
    test: str | None
    dtypes: tuple[str, ...] | None
    mode: Mode | None

    def __str__(self) -> str:
        dtypes = ALL if self.dtypes is None else ",".join(sorted(self.dtypes))
        return f"{self.kind} {self.in_class} {self.test or ALL} {dtypes} {self.mode or ALL}"

    @classmethod
    def read(cls, text: str) -> Mark:
        """The other way round."""
        kind, in_class, *rest = text.split(" ")
        test, dtypes, mode = (None if part == ALL else part for part in rest)
        split = None if dtypes is None else tuple(dtypes.split(","))
        return cls(kind, in_class, test, split, mode)  # type: ignore[arg-type]

    def acts(self, test: str, dtype: str, mode: Mode) -> bool:
        """Whether it changes this test."""
        return (
            self.in_class == TEST_CLASS
            and self.test in (None, test)
            and (self.dtypes is None or dtype in self.dtypes)
            and self.mode in (None, mode)
        )


@dataclass(frozen=True)
class ModuleMarks:
    """What one release expects.

    Attributes:
        wheel, sha256: where it was read.
        dtypes: those that modules are tested with on MPS.
        modules: every entry, by its name (``nn.Conv3d``) → its marks.
    """

    release: str
    wheel: str
    sha256: str
    dtypes: tuple[str, ...]
    modules: Mapping[str, tuple[Mark, ...]]

    def expected(self, module: str, test: str, dtype: str, mode: Mode) -> Literal["pass", "fail", "skip"]:
        """What the release expects of a test; a skip wins over a failure."""
        kinds = {mark.kind for mark in self.modules.get(module, ()) if mark.acts(test, dtype, mode)}
        return "skip" if "skip" in kinds else "fail" if kinds else "pass"

    def idle(self) -> dict[str, tuple[Mark, ...]]:
        """Module → marks that name a class of which there are no tests."""
        found = {name: tuple(m for m in marks if m.in_class != TEST_CLASS) for name, marks in self.modules.items()}
        return {name: marks for name, marks in found.items() if marks}


def encode(marks: ModuleMarks, base: ModuleMarks | None) -> bytes:
    """The data file of ``marks`` when the release before it is ``base``; the same input gives the same bytes."""
    document = {
        "base": None if base is None else base.release,
        "release": marks.release,
        "wheel": marks.wheel,
        "sha256": marks.sha256,
        "dtypes": list(marks.dtypes),
        "modules": changed(_joined(marks), {} if base is None else _joined(base)),
    }
    return seal(MAGIC, document)


def decode(data: bytes, name: str, base: ModuleMarks | None) -> ModuleMarks:
    """A data file read back, on top of the release before; ``name`` is said in errors. Raises as ``unsealed``."""

    def read(document: Any) -> ModuleMarks:
        joined = {} if base is None else _joined(base)
        apply(by_name(document["modules"]), joined)
        split = {
            name: () if text == UNMARKED else tuple(map(Mark.read, text.split("; "))) for name, text in joined.items()
        }
        return ModuleMarks(document["release"], document["wheel"], document["sha256"], tuple(document["dtypes"]), split)

    return unsealed(MAGIC, data, name, base, read)


def _joined(marks: ModuleMarks) -> dict[str, str]:
    return {module: "; ".join(map(str, them)) or UNMARKED for module, them in marks.modules.items()}


FILES = OwnFiles(".modules", "marks of modules", decode, encode)
module_releases, load_marks = FILES.releases, FILES.load
