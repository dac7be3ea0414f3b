"""Makes small wheels of torch and torchvision with everything in them that a kernel table is read from."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path

from made_library import FALLBACK, Address, Load, MadeLibrary, definitions, initialiser

RELEASE = "2.13.0"
WHEEL = f"torch-{RELEASE}-cp311-cp311-macosx_14_0_arm64.whl"
ERROR_STUB = "__ZN2atL23slow_conv2d_forward_mpsERKNS_6TensorE"

DECLARED = """\
# native_functions.yaml in small
- func: abs(Tensor self) -> Tensor
  variants: function, method
  dispatch:
    CompositeExplicitAutograd: abs
    SparseMPS: abs_sparse

- func: add.out(Tensor self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)
  structured: True
  dispatch:
    CPU, CUDA: add_out
    MPS: add_out_mps

- func: add.Tensor(Tensor self, Tensor other) -> Tensor
  structured_delegate: add.out

- func: linear(Tensor input, Tensor weight) -> Tensor

- func: gone(Tensor self) -> Tensor
  dispatch: {}
"""

PYTHON = {
    "torch/version.py": "__version__ = '2.13.0'\ncuda: str | None = None\ngit_version = 'c0ffee'\n",
    "torch/backends/mps/__init__.py": (
        'def _init():\n    lib = Library("aten", "IMPL")\n    lib.impl("native_group_norm", function, "MPS")\n'
    ),
    "torch/utils/_foreach_utils.py": (
        'def _get_foreach_kernels_supported_devices():\n    return ["cuda"]\n'
        'def _get_fused_kernels_supported_devices():\n    return ["mps", "cuda"]\n'
    ),
    "torch/testing/_internal/test.py": 'lib = Library("aten", "IMPL", "MPS")\nlib.impl("only_in_a_test", function)\n',
}


def torch_library() -> MadeLibrary:
    """Registers what ``DECLARED`` says, one operator by hand, two fallbacks and an error stub."""
    schemas = ["abs", "add.Tensor", "add.out", "linear", "gone", "linalg_svd", "_slow_conv2d_forward", "by_hand"]
    return MadeLibrary(
        {
            definitions("aten"): [Load(f"{name}(Tensor self) -> Tensor", 1) for name in schemas],
            initialiser("aten", "CompositeExplicitAutograd"): [Load("abs")],
            initialiser("aten", "CompositeImplicitAutograd"): [Load("linear")],
            initialiser("aten", "CPU"): [Load("add.out"), Load("only_on_the_cpu")],
            initialiser("aten", "MPS", 1): [Load("add.out"), Load("aten::add.Tensor", near=True)],
            initialiser("aten", "MPS", 2): [Load("by_hand")],
            initialiser("aten", "SparseMPS"): [Load("abs")],
            initialiser("_", "MPS"): [Load("PYTORCH_ENABLE_MPS_FALLBACK")],
            FALLBACK: [],
            ERROR_STUB: [],
            initialiser("aten", "MPS", 3): [
                Address(FALLBACK),
                Load("embedding_renorm_"),
                Load("linalg_svd"),
                Address(ERROR_STUB),
                Load("_slow_conv2d_forward"),
            ],
        },
        strings=("The MPS backend is supported on macOS 14.0+. ", "float64 is not supported on MPS"),
    )


def make_wheel(
    folder: Path,
    name: str = WHEEL,
    library: bytes | None = None,
    members: Mapping[str, str | bytes | None] | None = None,
    version: str = RELEASE,
) -> Path:
    """A wheel in ``folder``; ``members`` replaces files, or leaves out those that are ``None``."""
    content: dict[str, str | bytes | None] = {
        **PYTHON,
        "torchgen/packaged/ATen/native/native_functions.yaml": DECLARED,
        "torch/lib/libtorch_cpu.dylib": torch_library().build() if library is None else library,
        **(members or {}),
    }
    return write_wheel(folder / name, content, "torch", version)


def make_torchvision_wheel(folder: Path, library: bytes, version: str = "0.28.0") -> Path:
    """A wheel of torchvision that requires torch 2.13.0."""
    content = {"torchvision/_C_stable.so": library, "torchvision/version.py": "git_version = 'beef'\n"}
    path = folder / f"torchvision-{version}-cp311-cp311-macosx_14_0_arm64.whl"
    return write_wheel(path, content, "torchvision", version, "Requires-Dist: torch (==2.13.0)\n")


def write_wheel(
    path: Path, content: Mapping[str, str | bytes | None], project: str, version: str, requires: str = ""
) -> Path:
    """A zip file with ``content``, and the metadata and the list of files that a wheel has."""
    info = f"{project.replace('-', '_')}-{version}.dist-info"
    kept = {name: data for name, data in content.items() if data is not None}
    kept[f"{info}/METADATA"] = f"Metadata-Version: 2.1\nName: {project}\nVersion: {version}\n{requires}"
    kept[f"{info}/RECORD"] = "".join(f"{name},,\n" for name in [*kept, f"{info}/RECORD"])
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in kept.items():
            file.writestr(name, data)
    return path
