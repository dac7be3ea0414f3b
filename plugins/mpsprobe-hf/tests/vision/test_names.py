"""Names: whose they are, what is said about wrong ones and about libraries that are not there."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from mpsprobe.declarations import resolve
from mpsprobe.errors import MissingPackage, UnknownName, UsageError, WorkloadError
from mpsprobe.plugins.registry import get_registry
from mpsprobe.protocols import RunOptions, Workload
from mpsprobe_hf.vision.names import declare, named, space

MAKERS = {"timm:net": "timm", "torchvision:net": "torchvision.models"}


def made(name: str) -> Workload:
    """The workload of a name."""
    declaration = declare(name)
    assert declaration is not None
    workload: Workload = resolve(declaration.target)(name)
    return workload


def test_names_of_others() -> None:
    others = ("net", "hf:net", "timm", "", "timm/resnet50.a1_in1k", "timm:a\x1b[2J", "TIMM:net")
    assert [name for name in others if declare(name) is not None] == []
    with pytest.raises(UnknownName) as caught:
        get_registry().workload("timn:net")
    assert "timm:NAME" in str(caught.value.hint)


def test_vgg16_needs_no_prefix() -> None:
    [vgg16] = named()
    assert vgg16.name == "vgg16" and vgg16.requires == ("torchvision",)
    declaration, plugin = get_registry().workload_and_owner("vgg16")
    assert declaration == vgg16 and plugin.found.distribution == "mpsprobe-hf"


def test_every_name_of_a_library_is_listed(libraries: None) -> None:
    for library in ("timm", "torchvision"):
        found = space(library)
        assert found and all(declare(one.name) == one for one in found)


def test_unknown(libraries: None) -> None:
    for name, nearest, said in (
        ("timm:nett", "net", "unknown model of timm 'nett'"),
        ("timm:net.in1", "net.in1k", "unknown model of timm 'net.in1'"),
        ("timm:nix.in1k", None, "unknown model of timm"),
        ("timm:net/feature", "features", "embedding"),
        ("torchvision:segmentr", "segmenter", "unknown model of torchvision"),
        ("torchvision:", None, "list_models"),
    ):
        with pytest.raises(UnknownName) as caught:
            made(name)
        assert said in str(caught.value)
        assert caught.value.nearest[:1] == ([nearest] if nearest else []), name


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize(
    ("raised", "error", "said"),
    [
        (ModuleNotFoundError(), MissingPackage, "needs the package {library}.*pip install"),
        (ModuleNotFoundError(name="yaml.nodes"), MissingPackage, "needs the package pyyaml.*pip install"),
        (ModuleNotFoundError(name="PIL"), MissingPackage, "needs the package pillow.*pip install"),
        (RuntimeError("operator torchvision::nms does not exist"), WorkloadError, "nms does.*built for another torch"),
        (ImportError("no x"), WorkloadError, "^{library} cannot be imported: .*no x.*pip install --upgrade torch"),
    ],
)
def test_a_library_that_is_not_there_or_does_not_fit(
    monkeypatch: pytest.MonkeyPatch, name: str, raised: Exception, error: type[Exception], said: str
) -> None:
    real = importlib.import_module

    def imported(module: str, package: str | None = None) -> Any:
        if module == MAKERS[name]:
            raise raised
        return real(module, package)

    monkeypatch.setattr("mpsprobe_hf.vision.libraries.importlib.import_module", imported)
    with pytest.raises(error, match=f"(?s){said.format(library=name.partition(':')[0])}"):
        made(name)


def test_options_that_cannot_be_honoured(libraries: None) -> None:
    for options, said in (
        (RunOptions(phase="generate"), "no generate phase"),
        (RunOptions(weights=True), "random weights"),
        (RunOptions(seq_len=8), "no sequences"),
        (RunOptions(size="small"), "has one size"),
        (RunOptions(batch_size=0), "batch size is 0"),
        (RunOptions(batch_size=2**31), "batch size is 2147483648"),
    ):
        for name in MAKERS:
            with pytest.raises(UsageError, match=said) as caught:
                made(name).build(options)
            assert caught.value.hint
