"""Names of Keras, and what says that TensorFlow is missing: without TensorFlow."""

from __future__ import annotations

import pytest

from mpsprobe_tensorflow.plugin import mpsprobe_resolve_workload


@pytest.mark.parametrize("name", ["keras", "timm:resnet50", "kerasx:vgg16", "keras:vgg\n16"])
def test_other_names_are_not_ours(name: str) -> None:
    assert mpsprobe_resolve_workload(name) is None


def test_a_name_of_keras_is_ours() -> None:
    found = mpsprobe_resolve_workload("keras:mobilenet_v2")
    assert found is not None
    assert (found.name, found.framework) == ("keras:mobilenet_v2", "tensorflow")
