"""``mpsprobe coverage`` with what cannot work: a clear sentence, exit code 2, nothing half written."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mpsprobe_devkit.testing import run_cli
from mpsprobe_devkit.testing.commands import command_environment, command_path


@pytest.fixture
def folder(folder: Path) -> Path:
    """With a folder where a file could be."""
    (folder / "taken").mkdir()
    return folder


OF_WORKLOADS = [
    ([], ["WORKLOAD"]),
    (["bert-bsae"], ["unknown workload 'bert-bsae'", "bert-base"]),
    (["models.py:claen"], ["no function 'claen'", "clean"]),
    (["models.py"], ["does not say which function"]),
    (["modles.py:clean"], ["there is no file 'modles.py'", "models.py"]),
    (["models.py:raises"], ["raised LookupError: no weights here", "models.py:55"]),
    (["models.py:number"], ["It should return (model, inputs)"]),
]
OF_FLAGS = [
    ("--torch 2.13.9", ["2.13.9", "2.13.0"]),
    ("--torch 1.11.0", ["1.11.0", "1.12"]),
    ("--torch 1.11", ["1.11", "1.12"]),
    ("--torch newest", ["newest"]),
    ("--torch ,", ["--torch needs a release"]),
    ("--torch installed,2.6.0", ["stands alone"]),
    ("--macos 99", ["'99' is no version of macOS", "12, 13, 14, 15, 26, 27"]),
    ("--macos 26.x", ["'26.x' is no version of macOS"]),
    ("-o report.foo", ["no format has the extension '.foo'", ".html", "--format"]),
    ("-o taken", ["it is a folder"]),
    ("-o none/report.json", ["its folder does not exist"]),
    ("--format parquet", ["'parquet' reads profile", "markdown"]),
    ("--format jsno", ["unknown exporter 'jsno'", "json"]),
    ("--phase trainign", ["unknown phase 'trainign'", "training"]),
    ("--dtype float61", ["unknown dtype 'float61'", "float16"]),
    ("--dtype float64", ["unknown dtype 'float64'", "float32"]),
    ("--autocast float32", ["unknown dtype 'float32'"]),
    ("--fail-on mising", ["unknown verdict 'mising'", "missing"]),
    ("--fail-on ,", ["at least one verdict"]),
    ("--method observed", ["not there", "mpsprobe run --device mps"]),
    ("--method observd", ["unknown method 'observd'", "observed"]),
    ("--batch-size 0", ["--batch-size takes a whole number from 1, not '0'"]),
    ("--batch-size -3", ["--batch-size takes a whole number from 1, not '-3'"]),
    ("--batch-size many", ["--batch-size takes a whole number from 1, not 'many'"]),
    ("--seq-len 0", ["--seq-len takes a whole number from 1"]),
    ("--seq-len 99999999999999999999", ["--seq-len takes a whole number from 1"]),
    ("--seq-len 8", ["takes no seq_len"]),
    ("--grad-accum 0", ["--grad-accum takes a whole number from 1"]),
    ("--grad-accum 2", ["--phase training only"]),
    ("--clip-norm -1", ["--clip-norm takes a number from 0 on, not '-1'"]),
    ("--new-tokens 3", ["--new-tokens makes sense with --phase generate only"]),
    ("--word-timestamps", ["--word-timestamps makes sense with --phase generate only"]),
    ("--phase generate --decoding beam", ["unknown decoding 'beam'", "beams"]),
    ("--phase generate", ["does not say how Net generates", "model.generate("]),
    ("--vary seqlen=1..4", ["did you mean 'seq-len'"]),
    ("--vary seq-len=4..1", ["'4..1' is no range of whole numbers from 1 on"]),
    ("--vary seq-len=1..99999999999", ["is no range"]),
    ("--vary seq-len=1..4 --torch 2.12.0,2.13.0", ["--vary is about one workload on one torch release"]),
    ("--vary new-tokens=1..4", ["--vary new-tokens does not go with --phase inference"]),
    ("--allocations --torch 2.12,2.13", ["one workload on one torch release"]),
    ("--chip m2-por", ["did you mean 'm2-pro'"]),
    ("--chip m1-24gb", ["there is no Apple M1 with 24gb"]),
    ("--chip m2-pro-16gb --memory 32GB", ["another memory"]),
    ("--chip m2-pro --fail-on memory", ["needs the memory of a Mac"]),
    ("--memory 16", ["no size of memory"]),
    ("--no-such-flag", ["--no-such-flag"]),
]
BAD = [*OF_WORKLOADS, *((["models.py:clean", *flags.split()], said) for flags, said in OF_FLAGS)]


@pytest.mark.parametrize(("arguments", "said"), BAD, ids=[" ".join(arguments) or "nothing" for arguments, _ in BAD])
def test_it_says_what_is_wrong(folder: Path, arguments: list[str], said: list[str]) -> None:
    before = sorted(folder.rglob("*"))
    result = run_cli("coverage", *arguments, cwd=folder, process=False)
    assert (result.code, result.stdout) == (2, "")
    assert not [words for words in said if words not in result.stderr], result.stderr
    assert "Traceback" not in result.stderr
    assert sorted(folder.rglob("*")) == before


def test_a_path_that_cannot_be_written_is_told_before_the_work(folder: Path) -> None:
    (folder / "taken").chmod(0o500)
    locked = not os.access(folder / "taken", os.W_OK)  # permissions say nothing to a superuser
    target = folder / ("taken" if locked else "models.py") / "report.json"
    result = run_cli("coverage", "models.py:waits", "-o", target, cwd=folder, process=False)
    (folder / "taken").chmod(0o700)
    assert result.code == 2 and "ready" not in result.stderr
    assert "Traceback" not in result.stderr and target.name in result.stderr


def test_an_older_report_survives_a_failure_and_is_replaced_whole(folder: Path) -> None:
    report = folder / "report.json"
    report.write_text("old")
    arguments = ("--torch", "2.13.0", "-o", report)
    assert run_cli("coverage", "models.py:raises", *arguments, cwd=folder, process=False).code == 2
    assert report.read_text() == "old"
    assert run_cli("coverage", "models.py:clean", *arguments, cwd=folder, process=False).code == 0
    assert report.read_text().startswith("{") and report.read_text().rstrip().endswith("}")
    assert {path.name for path in folder.iterdir()} == {"models.py", "taken", "report.json"}


def test_ctrl_c_leaves_nothing_behind(folder: Path) -> None:
    report = folder / "report.json"
    report.write_text("old")
    before = sorted(folder.rglob("*"))
    command = [command_path(), "coverage", "models.py:waits", "--torch", "2.13.0", "-o", report]
    new_group = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP} if sys.platform == "win32" else {}
    process = subprocess.Popen(
        command, cwd=folder, env=command_environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, **new_group
    )
    assert process.stderr is not None
    while b"ready" not in process.stderr.readline():
        assert process.poll() is None
    time.sleep(0.2)
    process.send_signal(signal.CTRL_BREAK_EVENT if sys.platform == "win32" else signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    assert process.returncode != 0
    assert output == b"" and b"Traceback" not in errors
    assert sorted(folder.rglob("*")) == before and report.read_text() == "old"


def test_the_environment_variable_is_an_option_too(folder: Path) -> None:
    variables = {"MPSPROBE_COVERAGE_TORCH": "1.11.0"}
    result = run_cli("coverage", "models.py:clean", cwd=folder, variables=variables, process=False)
    assert result.code == 2 and "1.11.0" in result.stderr
