"""Registrations through the stable C ABI, in code as clang makes it for torchvision 0.29."""

from __future__ import annotations

from pathlib import Path

from made_library import Call, Load, MadeLibrary, Step

from mpsprobe_tables.builder.macho import MachO
from mpsprobe_tables.builder.registrations import read_registrations

VARIABLE = "__ZN6vision3opsL55STABLE_TORCH_LIBRARY_IMPL_static_init_torchvision_MPS_0E"
OPEN_KEY, OPEN_FRAGMENT = "_aoti_torch_library_init_impl", "_aoti_torch_library_init_fragment"
KERNEL, SCHEMA = "_torch_library_impl", "_aoti_torch_library_def"


def _library(**functions: list[Step]) -> MadeLibrary:
    return MadeLibrary({f"__GLOBAL__sub_I_{name}": steps for name, steps in functions.items()}, objects=(VARIABLE,))


def _opened(key: str) -> list[Step]:
    return [Load("torchvision", 0), Load(key, 1), Load("ops/nms_kernel.mm", 2), Call(OPEN_KEY)]


def test_kernels_and_schemas_are_found(tmp_path: Path) -> None:
    path = tmp_path / "_C_stable.so"
    made = _library(
        mps=[*_opened("MPS"), Load("nms", 1), Call(KERNEL), Load("roi_align", 1), Call(KERNEL)],
        cpu=[*_opened("CPU"), Load("only_on_the_cpu", 1), Call(KERNEL)],
        schemas=[
            *[Load("torchvision", 0), Load("nms.cpp", 1), Call(OPEN_FRAGMENT)],
            *[Load("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor", 1), Call(SCHEMA)],
        ],
    )
    path.write_bytes(made.build())
    found = read_registrations(MachO(path))
    assert found.kernels == {"MPS": {"torchvision::nms", "torchvision::roi_align"}}
    assert found.defined == {"torchvision::nms"}


def test_other_static_initialisers_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "library.dylib"
    path.write_bytes(MadeLibrary({"__GLOBAL__sub_I_x": [*_opened("MPS"), Load("nms"), Call(KERNEL)]}).build())
    assert read_registrations(MachO(path)).kernels == {}
