"""Names: whose they are, what is said about wrong ones and about libraries that are not there."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import pytest

from mpsprobe.declarations import resolve
from mpsprobe.errors import MissingPackage, UnknownName, UsageError, WorkloadError
from mpsprobe.plugins.registry import get_registry
from mpsprobe.protocols import RunOptions, Workload
from mpsprobe_vision.plugin import mpsprobe_resolve_workload, mpsprobe_workload_space, mpsprobe_workloads

MAKERS = {"timm:net": "timm", "torchvision:net": "torchvision.models"}


def made(name: str) -> Workload:
    """The workload of a name."""
    declaration = mpsprobe_resolve_workload(name)
    assert declaration is not None
    workload: Workload = resolve(declaration.target)(name)
    return workload


@pytest.mark.parametrize("name", ["net", "hf:net", "timm", "", "timm/resnet50.a1_in1k", "timm:a\x1b[2J", "TIMM:net"])
def test_names_of_others(name: str) -> None:
    assert mpsprobe_resolve_workload(name) is None


def test_vgg16_needs_no_prefix() -> None:
    [vgg16] = mpsprobe_workloads()
    assert vgg16.name == "vgg16" and vgg16.requires == ("torchvision",)
    declaration, plugin = get_registry().workload_and_owner("vgg16")
    assert declaration == vgg16 and plugin.found.distribution == "mpsprobe-vision"


def test_an_error_about_a_name_says_that_there_are_these(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnknownName) as caught:
        get_registry().workload("timn:net")
    assert "mpsprobe-vision: timm:NAME" in str(caught.value.hint)


def test_every_name_of_a_library_is_listed(libraries: None) -> None:
    for space in ("timm", "torchvision"):
        found = mpsprobe_workload_space(space) or []
        assert found and all(mpsprobe_resolve_workload(one.name) == one for one in found)
    assert mpsprobe_workload_space("hf") is None


@pytest.mark.parametrize(
    ("name", "nearest", "said"),
    [
        ("timm:nett", "net", "unknown model of timm 'nett'"),
        ("timm:net.in1", "net.in1k", "unknown model of timm 'net.in1'"),
        ("timm:nix.in1k", None, "unknown model of timm"),
        ("timm:net/feature", "features", "embedding"),
        ("torchvision:segmentr", "segmenter", "unknown model of torchvision"),
        ("torchvision:", None, "list_models"),
    ],
)
def test_unknown(libraries: None, name: str, nearest: str | None, said: str) -> None:
    with pytest.raises(UnknownName) as caught:
        made(name)
    assert said in str(caught.value)
    assert caught.value.nearest[:1] == ([nearest] if nearest else [])


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize(("lacking", "distribution"), [(None, None), ("yaml.nodes", "pyyaml"), ("PIL", "pillow")])
def test_not_installed(
    monkeypatch: pytest.MonkeyPatch, name: str, lacking: str | None, distribution: str | None
) -> None:
    def absent(module: str) -> None:
        raise ModuleNotFoundError(name=lacking or module)

    monkeypatch.setattr("mpsprobe_vision.libraries.importlib.import_module", _only_for(MAKERS[name], absent))
    with pytest.raises(MissingPackage) as caught:
        made(name)
    assert caught.value.distribution == (distribution or name.partition(":")[0])
    assert "pip install" in str(caught.value.hint)


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize(
    ("error", "hint"),
    [
        (RuntimeError("operator torchvision::nms does not exist"), "built for another torch"),
        (ImportError("cannot import name 'x'"), "pip install --upgrade torch"),
    ],
)
def test_one_that_does_not_fit(monkeypatch: pytest.MonkeyPatch, name: str, error: Exception, hint: str) -> None:
    def broken(module: str) -> None:
        raise error

    monkeypatch.setattr("mpsprobe_vision.libraries.importlib.import_module", _only_for(MAKERS[name], broken))
    with pytest.raises(WorkloadError, match="cannot be imported") as caught:
        made(name)
    assert str(error) in str(caught.value) and hint in str(caught.value.hint)


def _only_for(wanted: str, act: Callable[[str], None]) -> Callable[..., Any]:
    real = importlib.import_module
    return lambda name, package=None: act(name) if name == wanted else real(name, package)


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"phase": "generate"}, "no generate phase"),
        ({"weights": True}, "random weights"),
        ({"seq_len": 8}, "no sequences"),
        ({"size": "small"}, "has one size"),
        ({"batch_size": 0}, "a batch of 0"),
        ({"batch_size": 2**31}, "a batch of 2147483648"),
    ],
)
def test_options_that_cannot_be_honoured(libraries: None, name: str, options: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said) as caught:
        made(name).build(RunOptions(**options))
    assert caught.value.hint
