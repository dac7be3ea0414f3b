"""What PyTorch's tests of modules expect of MPS, release by release, as read from the macOS wheels (2.1.0 on).

``TestModule`` of PyTorch's test/test_modules.py runs each entry of ``module_db``, in train and eval mode, on Macs too
since 2.1. The entries carry *marks*: decorators that say that a test fails on MPS, strictly, or is skipped there.

The data files lie in ``data``: ``torch-V.modules``, one for each release, each holding what changed since the release
before. The first line is ``mpsprobe-module-marks 1 SHA256``, the digest of the rest, one document::

    {"base": "2.12.1", "release": "2.13.0", "wheel": …, "sha256": …, "dtypes": ["float16", "float32"],
     "modules": {"-": "nn.AvgPool1d nn.CELU …", "skip TestModule * * *": "nn.Conv3d …", …}}
"""

from __future__ import annotations

import re
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

MARK = re.compile(r"(?P<kind>fail|skip) (?P<in_class>\S+) (?P<test>\S+) (?P<dtypes>\S+) (?P<mode>[^\s;]+)")
"""A decorator of an entry that says something of MPS; ``*`` is every test, dtype or mode. It acts where the class of
tests that it names is ``TEST_CLASS``. Several are parted by ``; ``, and the dtypes of one by commas."""

Mode = Literal["train", "eval"]


@dataclass(frozen=True)
class ModuleMarks:
    """What one release expects."""

    release: str
    # wheel, sha256: where it was read
    wheel: str
    sha256: str
    dtypes: tuple[str, ...]  # those that modules are tested with on MPS
    modules: Mapping[str, str]  # every entry, by its name (``nn.Conv3d``) → its marks, as the files have them

    def expected(self, module: str, test: str, dtype: str, mode: Mode) -> Literal["pass", "fail", "skip"]:
        """What the release expects of a test; a skip wins over a failure."""
        kinds = {
            kind
            for kind, in_class, *narrowed in MARK.findall(self.modules.get(module, ""))
            if in_class == TEST_CLASS
            and all(
                allowed == ALL or of in allowed.split(",")
                for allowed, of in zip(narrowed, (test, dtype, mode), strict=True)
            )
        }
        return "skip" if "skip" in kinds else "fail" if kinds else "pass"

    def idle(self) -> tuple[str, ...]:
        """The modules with a mark that names a class of which there are no tests."""
        named = {module: {mark[1] for mark in MARK.findall(marks)} for module, marks in self.modules.items()}
        return tuple(module for module, classes in named.items() if classes - {TEST_CLASS})


def encode(marks: ModuleMarks, base: ModuleMarks | None) -> bytes:
    """The data file of ``marks`` when the release before it is ``base``; the same input gives the same bytes."""
    document = {
        "base": None if base is None else base.release,
        "release": marks.release,
        "wheel": marks.wheel,
        "sha256": marks.sha256,
        "dtypes": list(marks.dtypes),
        "modules": changed(marks.modules, {} if base is None else base.modules),
    }
    return seal(MAGIC, document)


def decode(data: bytes, name: str, base: ModuleMarks | None) -> ModuleMarks:
    """A data file read back, on top of the release before; ``name`` is said in errors. Raises as ``unsealed``."""

    def read(document: Any) -> ModuleMarks:
        modules = {} if base is None else dict(base.modules)
        apply(by_name(document["modules"]), modules)
        dtypes = tuple(document["dtypes"])
        return ModuleMarks(document["release"], document["wheel"], document["sha256"], dtypes, modules)

    return unsealed(MAGIC, data, name, base, read)


FILES = OwnFiles(".modules", "marks of modules", decode, encode)
module_releases, load_marks = FILES.releases, FILES.load
