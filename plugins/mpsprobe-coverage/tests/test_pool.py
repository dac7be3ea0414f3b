"""Processes side by side: whatever a question does to its process, each of them gets an answer or a reason."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from mpsprobe_coverage.pool import Answer, Limits, Pool, Worker

MODULE = """
import os, sys, time
from mpsprobe_coverage.pool import serve

def prepare(shared):
    print("loaded", flush=True)  # is no answer

    def respond(question):
        print("working", flush=True)
        if question == "dies":
            open(shared, "a").write("x")
            os._exit(9)
        if question == "hangs":
            time.sleep(600)
        if question == "grows":
            kept = []
            while True:
                kept.append(bytearray(os.urandom(2**20) * 32))
        return f"{question} \\udc80 {os.getpid()}"

    return respond

if __name__ == "__main__":
    serve(prepare)
"""


@pytest.fixture
def died(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that counts deaths; the module of the processes is there too."""
    (tmp_path / "answering_module.py").write_text(MODULE, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    return tmp_path / "died"


def answered(died: Path, questions: list[str], limits: Limits, **settings: Any) -> dict[str, Answer]:
    with Pool("answering_module", str(died), limits, settings.pop("jobs", 1), **settings) as pool:
        return {questions[one.number]: one for one in pool.answers(questions)}


def process_of(answer: Answer) -> str:
    assert answer.text is not None
    return answer.text.rpartition(" ")[2]


def test_one_process_answers_until_it_has_answered_enough(died: Path) -> None:
    found = answered(died, ["a", "b", "c"], Limits(60), each=2)
    assert [one.text and one.text.startswith(f"{name} \\udc80 ") for name, one in found.items()] == [True] * 3
    assert process_of(found["a"]) == process_of(found["b"]) != process_of(found["c"])
    assert {(one.error, one.attempts, one.by_limit, one.peak_bytes) for one in found.values()} == {("", 1, False, None)}


def test_what_dies_hangs_or_grows_costs_one_question(died: Path) -> None:
    questions = ["dies", "grows", "a", "hangs", "b"]
    found = answered(died, questions, Limits(5, 2**29), jobs=2, attempts=3, each=9)
    assert [found[name].text is None for name in questions] == [True, True, False, True, False]
    dead = found["dies"]
    assert (dead.error, dead.attempts, dead.by_limit) == ("its process ended with exit code 9", 3, False)
    assert died.read_text() == "xxx" and "use fewer --jobs" in (dead.hint or "")
    assert found["grows"].error == "it took more than 0.5 GB of memory" and found["grows"].by_limit
    assert (found["grows"].peak_bytes or 0) > 2**29
    assert found["hangs"].error == "it took longer than 5 s" and found["hangs"].by_limit


def test_a_program_that_cannot_begin_is_one_that_died(tmp_path: Path) -> None:
    worker = Worker("no_such_module", None, Limits(60), each=1, threads=1)
    assert worker.answer("a").error == "its process ended with exit code 1"


def test_what_fails_here_is_raised_here(died: Path) -> None:
    with Pool("answering_module", str(died), Limits(60), 1, each=1) as pool, pytest.raises(TypeError):
        next(pool.answers([object()]))
