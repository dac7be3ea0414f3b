"""Targets of declarations."""

from __future__ import annotations

import pytest

from mpsprobe.declarations import resolve
from mpsprobe.errors import PluginError


def test_a_target_is_imported_when_it_is_resolved() -> None:
    import json

    assert resolve("json:dumps") is json.dumps
    assert resolve("json:JSONDecoder.decode") is json.JSONDecoder.decode


@pytest.mark.parametrize("target", ["", ":", "json", "json:", ":dumps"])
def test_a_target_of_another_form_is_refused(target: str) -> None:
    with pytest.raises(PluginError, match=r"not of the form 'package\.module:attribute'"):
        resolve(target)


def test_an_attribute_that_is_not_there_is_named() -> None:
    with pytest.raises(PluginError, match="'json:nothing' does not resolve"):
        resolve("json:nothing")


def test_a_module_that_is_not_there_is_an_import_error() -> None:
    with pytest.raises(ImportError):
        resolve("mpsprobe_no_such_module:x")
