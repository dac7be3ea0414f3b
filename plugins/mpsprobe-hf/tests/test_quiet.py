"""Calls of models say nothing that nobody can act on, and cost no time for it."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from mpsprobe_hf.construct import Mute, mutes, quietly

LIBRARIES = ("transformers", "huggingface_hub")


class _Seen(logging.Handler):
    """Puts what reaches a library's handlers into ``messages``."""

    def __init__(self, messages: list[str]) -> None:
        super().__init__()
        self.messages = messages

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


@pytest.fixture
def seen() -> Iterator[list[str]]:
    mutes()  # has the libraries make their own handlers first
    messages: list[str] = []
    handlers = {name: _Seen(messages) for name in LIBRARIES}
    for name, handler in handlers.items():
        logging.getLogger(name).addHandler(handler)
    yield messages
    for name, handler in handlers.items():
        logging.getLogger(name).removeHandler(handler)


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


def test_the_plain_call_is_the_models() -> None:
    assert quietly()(lambda first, second: first + second, (1,), {"second": 2}) == 3


def test_no_level_is_touched_by_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    call = quietly(lambda model, args, kwargs: [logging.getLogger(name).level for name in LIBRARIES])
    before = [logging.getLogger(name).level for name in LIBRARIES]

    def refuse(self: logging.Logger, level: Any) -> None:
        raise AssertionError("a change of level costs every logger's cache")

    monkeypatch.setattr(logging.Logger, "setLevel", refuse)
    assert call(None, (), {}) == before


def test_a_handler_is_muted_once() -> None:
    first, second = mutes(), mutes()
    assert first and first == second
    for name in LIBRARIES:
        for handler in logging.getLogger(name).handlers:
            assert sum(isinstance(one, Mute) for one in handler.filters) == 1
