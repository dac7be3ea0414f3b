"""Calls of models say nothing that nobody can act on, and cost no time for it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any
from unittest.mock import Mock

import pytest

from mpsprobe_hf.construct import Mute, mutes, quietly

LIBRARIES = ("transformers", "huggingface_hub")


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What reaches a handler of each library."""
    mutes()  # has the libraries make their own handlers first
    messages: list[str] = []
    for name in LIBRARIES:
        handler = logging.Handler()
        handler.emit = lambda record: messages.append(record.getMessage())  # type: ignore[method-assign]
        monkeypatch.setattr(logging.getLogger(name), "handlers", [*logging.getLogger(name).handlers, handler])
    return messages


def _warn(model: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    for name in LIBRARIES:
        logging.getLogger(f"{name}.some.module").warning("a warning")
        logging.getLogger(f"{name}.some.module").error("an error of %s", name)
    return "done"


def test_warnings_are_held_back_while_a_model_is_called_and_only_then(seen: list[str]) -> None:
    call = quietly(_warn)
    assert call(None, (), {}) == "done" and seen == ["an error of transformers"]
    _warn(None, (), {})
    assert len(seen) == 1 + 4


def test_after_an_error_warnings_go_out_again(seen: list[str]) -> None:
    def fail(model: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        raise ValueError("no such size")

    with pytest.raises(ValueError, match="no such size"):
        quietly(fail)(None, (), {})
    _warn(None, (), {})
    assert "a warning" in seen


def test_the_plain_call_is_the_models_and_touches_no_level(monkeypatch: pytest.MonkeyPatch) -> None:
    assert quietly()(lambda first, second: first + second, (1,), {"second": 2}) == 3
    call = quietly(lambda model, args, kwargs: [logging.getLogger(name).level for name in LIBRARIES])
    before = [logging.getLogger(name).level for name in LIBRARIES]
    # A change of level costs every logger's cache.
    monkeypatch.setattr(logging.Logger, "setLevel", Mock(side_effect=AssertionError))
    assert call(None, (), {}) == before
    first, second = mutes(), mutes()
    assert first and first == second
    for name in LIBRARIES:
        for handler in logging.getLogger(name).handlers:
            assert sum(isinstance(one, Mute) for one in handler.filters) == 1
