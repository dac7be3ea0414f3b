"""What is said about an operator for certain, and of which nothing is said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from made_kernels import (
    CALL_STUB,
    GRAPH,
    LOOKUP,
    REGISTER,
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

from mpsprobe.progress import SilentProgress
from mpsprobe_coverage.kernels.kernel_facts import MAY, FactsFile, KernelFacts, decode_facts
from mpsprobe_tables.builder.facts import read_facts
from mpsprobe_tables.builder.rebuild import from_files, rebuild

NAMES = (
    *("exp_dense_float_float", "exp_strided_half_half", "fmax_dense_bool_bool", "maximum_dense_long_long"),
    *("renorm_float", "renorm_half", "copy_8bit", "offsets"),
)
EXP_STUB = [Address(stub("exp_stub")[0], 0), Call(CALL_STUB)]
PUT_STUB = [Address(stub("put_stub")[0], 0), Call(CALL_STUB)]
STUBS: dict[str, str | None] = {"exp_stub": native("exp_kernel_mps"), "put_stub": None}
PREPARE: list[Step] = [Text("offsets", 2), Call(LOOKUP)]
RENORM: list[Step] = [*formatted("renorm_{}"), Call(LOOKUP)]
FUNCTIONS: dict[str, Sequence[Step]] = {
    native("exp_kernel_mps"): unary("exp"),
    native("unknown name"): [Call(LOOKUP)],
    native("index_put"): [Call(operator_call("index_put_"))],
    native("runs a graph"): [Call(GRAPH)],
    native("renorm"): RENORM,
    native("copy"): [*formatted("copy_{}"), Call(LOOKUP)],
    native("prepares"): PREPARE,
    native("prepares and renorm"): [*PREPARE, *RENORM],
    native("prepares and exp"): [*PREPARE, *unary("exp")],
}


def _facts(folder: Path, library: MadeLibrary) -> KernelFacts:
    return read_facts(library.read(folder), "2.13.0", "c0ffee")


def _about(folder: Path, cases: Mapping[str, Sequence[Step]], stubs: dict[str, str | None] = STUBS) -> KernelFacts:
    """What is said about operators that do these steps, under the names of the cases."""
    facts = _facts(
        folder, kernel_library({f"op{n}": one for n, one in enumerate(cases.values())}, FUNCTIONS, stubs, NAMES)
    )
    operators, graphs = (
        {name: known[f"aten::op{n}"] for n, name in enumerate(cases) if f"aten::op{n}" in known}
        for known in (facts.operators, facts.graphs)
    )
    return replace(facts, operators=operators, graphs=graphs)


def test_operators_and_the_kernels_that_they_use(tmp_path: Path) -> None:
    made = {"exp.out": unary("exp"), "exp_": unary("exp"), "fmax": binary("fmax"), "renorm": [Call(native("renorm"))]}
    facts = _facts(tmp_path, kernel_library(made, FUNCTIONS, kernels=NAMES))
    assert facts.operators == {
        "aten::exp.out": {"unary:exp"},
        "aten::exp_": {"unary:exp"},
        "aten::fmax": {"binary:fmax"},
        "aten::renorm": {"named:renorm_{}"},
    }
    kernels = {"exp": {"float", "half"}, "fmax": {"bool"}, "renorm_{}": {"float", "half"}}
    assert facts.kernels == kernels  # 'maximum' is nobody's
    assert (facts.release, facts.sha256) == ("2.13.0", "c0ffee")


def test_what_is_said_of_kernels_and_stubs(tmp_path: Path) -> None:
    """Nothing where an operator may compute in another way too."""
    ways = {
        "a graph": [Call(GRAPH)],
        "another operator": [Call(native("index_put"))],
        "a kernel that is not there": unary("not_in_the_library"),
        "a name that is not known": [Call(native("unknown name"))],
    }
    cases = {
        "a stub with a kernel": EXP_STUB,
        "a stub without one": PUT_STUB,
        **{f"a stub without one, and {name}": [*PUT_STUB, *steps] for name, steps in ways.items()},
        "a stub without one, and one with": [*PUT_STUB, *EXP_STUB],
        "a stub without one, and a kernel": [*PUT_STUB, *unary("exp")],
        **{f"a kernel, and {name}": [*unary("exp"), *steps] for name, steps in ways.items()},
        "a kernel that serves all dtypes": [Call(native("copy"))],
        "a kernel that prepares": [Call(native("prepares"))],
        "a kernel that prepares, and renorm": [Call(native("prepares and renorm"))],
        "a kernel that prepares, and exp": [Call(native("prepares and exp"))],
    }
    assert _about(tmp_path, cases).operators == {
        "a stub with a kernel": {"unary:exp"},
        "a stub without one": {"stub:put_stub"},
        "a kernel that prepares, and renorm": {"named:renorm_{}"},
        "a kernel that prepares, and exp": {"unary:exp"},
    }
    assert _about(tmp_path, {"no stub has a kernel": PUT_STUB}, {"put_stub": None}).operators == {}


def test_which_operators_can_reach_a_graph(tmp_path: Path) -> None:
    further = [Call(native("runs a graph"))]
    cases = {"itself": [Call(GRAPH)], "in what it calls": further, "besides": [*EXP_STUB, *further], "never": EXP_STUB}
    assert _about(tmp_path, cases).graphs == dict.fromkeys(("itself", "in what it calls", "besides"), frozenset({MAY}))


def test_operators_that_only_make_tensors_are_no_other_way(tmp_path: Path) -> None:
    harmless = {"empty_memory_format", "resize_", "unsqueeze", "squeeze_dim", "view"}
    every = [*harmless, "view_dtype", "view_as_real", "to_dtype", "copy_", "fill__Scalar"]
    functions = {native(name): [Call(operator_call(name))] for name in every}
    made = {name: [*unary("exp"), Call(native(name))] for name in every}
    known = _facts(tmp_path, kernel_library(made, functions, kernels=NAMES)).operators
    assert known == dict.fromkeys((f"aten::{name}" for name in harmless), frozenset({"unary:exp"}))


def test_fallbacks_have_no_kernels(tmp_path: Path) -> None:
    registered = [Address(FALLBACK), Load("linalg_svd", 1), Call(REGISTER)]
    library = MadeLibrary({FALLBACK: unary("exp"), initialiser("aten", "MPS"): registered}, kernels=NAMES)
    assert _facts(tmp_path, library).operators == {}


def _files(*paths: Path) -> list[FactsFile]:
    """The data files that these wheels give."""
    built = rebuild(from_files(map(str, paths)), SilentProgress())
    return [decode_facts(one.files[1].data, one.files[1].name) for one in built]


def test_a_wheel_gives_a_data_file_on_top_of_the_release_before(tmp_path: Path) -> None:
    library = kernel_library({"by_hand": unary("exp")}, kernels=NAMES).build()
    [file] = _files(make_wheel(tmp_path, library=library))
    assert (file.base, file.changes["aten::by_hand"]) == ("2.12.1", "unary:exp")
    assert file.changes["aten::exp"] == ""  # which the shipped 2.12.1 has, and this library not
    paths = [
        make_wheel(tmp_path, f"torch-{version}-cp311-cp311-macosx_14_0_arm64.whl", library=library, version=version)
        for version in ("9.0.0", "9.0.1")
    ]
    _, file = _files(*paths)  # they are built together
    assert (file.base, file.changes, file.kernels) == ("9.0.0", {}, {})
