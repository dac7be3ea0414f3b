"""What is said about an operator for certain, and of which nothing is said."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from made_kernels import (
    CALL_STUB,
    GRAPH,
    LOOKUP,
    binary,
    formatted,
    kernel_library,
    native,
    operator_call,
    stub,
    unary,
)
from made_library import FALLBACK, Address, Call, Load, MadeLibrary, Step, Text, initialiser
from made_wheel import make_wheel

from mpsprobe.errors import TableError
from mpsprobe.progress import SilentProgress
from mpsprobe_coverage.kernels.kernel_facts import MAY, FactsFile, KernelFacts, decode_facts
from mpsprobe_tables.builder.facts import read_facts
from mpsprobe_tables.builder.macho import MachO
from mpsprobe_tables.builder.rebuild import from_files, rebuild

NAMES = (
    *("exp_dense_float_float", "exp_strided_half_half", "fmax_dense_bool_bool", "maximum_dense_long_long"),
    *("renorm_float", "renorm_half", "copy_8bit", "offsets"),
)


def _facts(folder: Path, library: MadeLibrary) -> KernelFacts:
    path = folder / "library.dylib"
    path.write_bytes(library.build())
    return read_facts(MachO(path), "2.13.0", "c0ffee")


def _known(
    folder: Path,
    steps: Sequence[Step],
    functions: dict[str, Sequence[Step]] | None = None,
    stubs: dict[str, str | None] | None = None,
) -> frozenset[str]:
    """What is said about an operator that does ``steps``."""
    library = kernel_library({"op": steps}, functions, stubs, NAMES)
    return _facts(folder, library).operators.get("aten::op", frozenset())


def test_operators_and_the_kernels_that_they_use(tmp_path: Path) -> None:
    library = kernel_library({"exp.out": unary("exp"), "exp_": unary("exp"), "fmax": binary("fmax")}, kernels=NAMES)
    facts = _facts(tmp_path, library)
    assert facts.operators == {
        "aten::exp.out": {"unary:exp"},
        "aten::exp_": {"unary:exp"},
        "aten::fmax": {"binary:fmax"},
    }
    assert facts.kernels == {"exp": {"float", "half"}, "fmax": {"bool"}}  # 'maximum' is nobody's
    assert (facts.release, facts.sha256) == ("2.13.0", "c0ffee")


def test_a_kernel_with_another_name(tmp_path: Path) -> None:
    steps = [*formatted("renorm_{}"), Call(LOOKUP)]
    facts = _facts(tmp_path, kernel_library({"renorm": [Call(native("f"))]}, {native("f"): steps}, kernels=NAMES))
    assert facts.operators == {"aten::renorm": {"named:renorm_{}"}}
    assert facts.kernels == {"renorm_{}": {"float", "half"}}


CALL_EXP_STUB = [Address(stub("exp_stub")[0], 0), Call(CALL_STUB)]
CALL_PUT_STUB = [Address(stub("put_stub")[0], 0), Call(CALL_STUB)]
STUBS: dict[str, str | None] = {"exp_stub": native("exp_kernel_mps"), "put_stub": None}
FUNCTIONS: dict[str, Sequence[Step]] = {native("exp_kernel_mps"): unary("exp")}


def test_an_operator_whose_stub_has_a_kernel(tmp_path: Path) -> None:
    assert _known(tmp_path, CALL_EXP_STUB, FUNCTIONS, STUBS) == {"unary:exp"}


def test_an_operator_whose_stub_has_none(tmp_path: Path) -> None:
    assert _known(tmp_path, CALL_PUT_STUB, FUNCTIONS, STUBS) == {"stub:put_stub"}


@pytest.mark.parametrize(
    "besides",
    [CALL_EXP_STUB, unary("exp"), [Call(GRAPH)], [Call(native("f"))]],
    ids=["another stub", "a Metal kernel", "a graph", "another operator"],
)
def test_an_unset_stub_says_nothing_beside_another_way(tmp_path: Path, besides: Sequence[Step]) -> None:
    functions = {**FUNCTIONS, native("f"): [Call(operator_call("index_put_"))]}
    assert _known(tmp_path, [*CALL_PUT_STUB, *besides], functions, STUBS) == frozenset()


def test_an_unset_stub_says_nothing_where_no_stub_is_set(tmp_path: Path) -> None:
    assert _known(tmp_path, CALL_PUT_STUB, {}, {"put_stub": None}) == frozenset()


@pytest.mark.parametrize(
    "besides",
    [[Call(GRAPH)], [Call(native("f"))], unary("not_in_the_library"), [Call(native("unknown_name"))]],
    ids=["a graph", "another operator", "a kernel that is not there", "a name that is not known"],
)
def test_a_kernel_says_nothing_beside_another_way(tmp_path: Path, besides: Sequence[Step]) -> None:
    functions: dict[str, Sequence[Step]] = {
        native("f"): [Call(operator_call("mul_out"))],
        native("unknown_name"): [Call(LOOKUP)],
    }
    assert _known(tmp_path, unary("exp"), functions) == {"unary:exp"}
    assert _known(tmp_path, [*unary("exp"), *besides], functions) == frozenset()


@pytest.mark.parametrize(
    ("steps", "known"),
    [
        ([Call(GRAPH)], {MAY}),
        ([Call(native("f"))], {MAY}),
        ([*CALL_EXP_STUB, Call(native("f"))], {MAY}),
        (CALL_EXP_STUB, None),
    ],
    ids=["itself", "in what it calls", "besides a Metal kernel", "never"],
)
def test_an_operator_that_can_reach_a_graph(tmp_path: Path, steps: Sequence[Step], known: set[str] | None) -> None:
    functions = {**FUNCTIONS, native("f"): [Call(GRAPH)]}
    library = kernel_library({"op": steps}, functions, STUBS, NAMES)
    assert _facts(tmp_path, library).graphs.get("aten::op") == known


@pytest.mark.parametrize(
    ("operator", "harmless"),
    [
        *((name, True) for name in ("empty_memory_format", "resize_", "unsqueeze", "squeeze_dim", "view")),
        *((name, False) for name in ("view_dtype", "view_as_real", "to_dtype", "copy_", "fill__Scalar")),
    ],
)
def test_operators_that_only_make_tensors_are_no_other_way(tmp_path: Path, operator: str, harmless: bool) -> None:
    functions: dict[str, Sequence[Step]] = {native("f"): [Call(operator_call(operator))]}
    assert bool(_known(tmp_path, [*unary("exp"), Call(native("f"))], functions)) is harmless


def test_a_kernel_that_does_not_tell_of_dtypes_serves_all(tmp_path: Path) -> None:
    steps = [*formatted("copy_{}"), Call(LOOKUP)]
    assert _known(tmp_path, [Call(native("f"))], {native("f"): steps}) == frozenset()


def test_a_kernel_that_prepares_says_nothing_beside_one_that_computes(tmp_path: Path) -> None:
    prepare: list[Step] = [Text("offsets", 2), Call(LOOKUP)]
    named = [*prepare, *formatted("renorm_{}"), Call(LOOKUP)]
    assert _known(tmp_path, [Call(native("f"))], {native("f"): named}) == {"named:renorm_{}"}
    assert _known(tmp_path, [Call(native("f"))], {native("f"): [*prepare, *unary("exp")]}) == {"unary:exp"}
    assert _known(tmp_path, [Call(native("f"))], {native("f"): prepare}) == frozenset()


def test_fallbacks_have_no_kernels(tmp_path: Path) -> None:
    from made_kernels import REGISTER

    registered = [Address(FALLBACK), Load("linalg_svd", 1), Call(REGISTER)]
    library = MadeLibrary({FALLBACK: unary("exp"), initialiser("aten", "MPS"): registered}, kernels=NAMES)
    assert _facts(tmp_path, library).operators == {}


def test_a_damaged_library_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "library.dylib"
    content = kernel_library({"exp": unary("exp")}, kernels=NAMES).build()
    for length in (0, 31, 200, len(content) // 2, len(content) - 40):
        path.write_bytes(content[:length])
        with pytest.raises(TableError):
            read_facts(MachO(path), "2.13.0", "c0ffee")


def _file(*paths: Path) -> tuple[FactsFile, ...]:
    """The data files that these wheels give."""
    built = rebuild(from_files(map(str, paths)), SilentProgress())
    return tuple(decode_facts(one.files[1].data, one.files[1].name) for one in built)


def test_a_wheel_gives_a_data_file_on_top_of_the_release_before(tmp_path: Path) -> None:
    library = kernel_library({"by_hand": unary("exp")}, kernels=NAMES).build()
    [file] = _file(make_wheel(tmp_path, library=library))
    assert (file.base, file.changes["aten::by_hand"]) == ("2.12.1", "unary:exp")
    assert file.changes["aten::exp"] == ""  # which the shipped 2.12.1 has, and this library not


def test_releases_that_are_built_together_build_on_each_other(tmp_path: Path) -> None:
    library = kernel_library({"by_hand": unary("exp")}, kernels=NAMES).build()
    paths = [
        make_wheel(tmp_path, f"torch-{version}-cp311-cp311-macosx_14_0_arm64.whl", library=library, version=version)
        for version in ("9.0.0", "9.0.1")
    ]
    _, file = _file(*paths)
    assert (file.base, file.changes, file.kernels) == ("9.0.0", {}, {})
