"""What code of a plugin may not leave changed: seen, said in words, and put back."""

from __future__ import annotations

import locale
import logging
import os
import signal
import socket
import sys
import time
import warnings
from pathlib import Path

import torch

from mpsprobe_devkit.process_state import changed, process_state, put_back


def test_it_compares_equal_while_nothing_changes_and_takes_less_than_a_millisecond() -> None:
    before = process_state()
    assert changed(before, process_state()) == []
    quickest = 1.0
    for _ in range(20):
        started = time.perf_counter()
        process_state(random_numbers=False)
        quickest = min(quickest, time.perf_counter() - started)
    assert quickest < 1e-3


def test_what_changes_is_said_in_words_without_values_and_put_back(tmp_path: Path) -> None:
    before = process_state(random_numbers=False)
    os.chdir(tmp_path)
    os.environ["MADE_BY_A_TEST"] = "a secret"
    sys.path.append("elsewhere")
    sys.argv.append("more")
    warnings.simplefilter("ignore")
    sys.setrecursionlimit(sys.getrecursionlimit() + 1)
    socket.setdefaulttimeout(7)
    logging.getLogger().setLevel("CRITICAL")
    torch.set_default_dtype(torch.float64)
    found = changed(before, process_state(random_numbers=False))
    assert found == [
        "the working folder",
        "sys.path",
        "the warnings filter",
        "sys.argv",
        "the recursion limit",
        "the default time-out of sockets",
        "the level of the root logger",
        "torch's default dtype",
        "the variable MADE_BY_A_TEST",
    ]
    put_back(before, found)
    assert changed(before, process_state(random_numbers=False)) == []


def test_handlers_of_signals_and_the_locale_are_looked_at() -> None:
    before = process_state()
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert changed(before, process_state()) == ["the handler of SIGINT"]
    finally:
        signal.signal(signal.SIGINT, handler)
    assert before["the locale"] == locale.setlocale(locale.LC_ALL)


def test_the_generators_are_looked_at_where_they_are_asked_for() -> None:
    before, without = process_state(), process_state(random_numbers=False)
    torch.rand(1)
    assert changed(without, process_state()) == []
    found = changed(before, process_state())
    assert found == ["torch's random numbers"]
    put_back(before, found)
    assert changed(before, process_state()) == []
