"""``mpsprobe coverage`` on models of a few lines: the report, what is printed, and the exit code.

What cannot work is reported in a clear sentence, with exit code 2, and nothing is half written. Several are one
table and one exit code, whatever becomes of one of them.
"""

from __future__ import annotations

import html
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import click
import pytest

from mpsprobe.errors import UsageError
from mpsprobe.plugins.registry import get_registry
from mpsprobe.progress import SilentProgress
from mpsprobe_coverage import pool
from mpsprobe_coverage.commands import several
from mpsprobe_devkit.testing import run_cli
from mpsprobe_devkit.testing.commands import command_environment, command_path

FILE = """\ufeff# what we ship
models.py:clean
models.py:missing  # has no kernel up to now

models.py:raises
models.py:dies
models.py:breaks
models.py:guess
models.py:clean
models.py:waits
"""
NAMES = ["clean", "missing", "raises", "dies", "breaks", "guess", "waits"]
EXPORTS = ("json", "markdown", "csv", "html", "junit", "prometheus", "sarif", "annotations")


@pytest.fixture
def folder(folder: Path) -> Path:
    """With a folder where a file could be, and a file that names workloads."""
    (folder / "taken").mkdir()
    (folder / "all.txt").write_text(FILE, encoding="utf-8")
    return folder


def _coverage(folder: Path, *arguments: str, torch: str = "2.13.0") -> Any:
    return run_cli("coverage", *arguments, "--torch", torch, cwd=folder, process=False)


def test_the_json_document(folder: Path) -> None:
    report = _coverage(folder, "models.py:clean", "--format", "json").json()
    assert (report["kind"], report["schema_version"], report["method"]) == ("coverage", 1, "predicted")
    assert report["workload"]["architecture"] == "Net" and report["workload"]["parameters"] == 20
    assert {one["operator"]: one["calls"] for one in report["operators"]} == {"aten::linear": 1, "aten::tanh": 1}
    assert report["summary"]["operators_by_verdict"] == {"native": 2}
    linear = next(one for one in report["operators"] if one["operator"] == "aten::linear")
    assert linear["modules"] == ["first"] and linear["call_sites"][0].endswith("models.py:12")


def test_the_answer_comes_first_and_progress_goes_nowhere(folder: Path) -> None:
    result = _coverage(folder, "models.py:clean", "--fail-on", "missing,fallback,unsupported,unknown")
    assert (result.code, result.stderr) == (0, "")
    assert result.stdout.splitlines()[1].startswith(
        "2 of 2 operators have a kernel that takes these calls on torch 2.13.0"
    )
    assert "aten::tanh" not in result.stdout
    assert "aten::tanh" in _coverage(folder, "models.py:clean", "--all").stdout


@pytest.mark.parametrize(
    ("workload", "torch", "gate", "code"),
    [
        ("factors", "2.13.0", "missing,unsupported", 0),
        ("factors", "2.13.0", "fallback", 1),
        ("doubles", "2.13.0", "unsupported", 1),
        ("missing", "2.13.0", "missing,fallback --allow *linalg_*", 0),
        ("late", "1.13.1,2.13.0", "missing", 1),
        ("breaks", "2.13.0", "missing", 2),
    ],
)
def test_exit_codes(folder: Path, workload: str, torch: str, gate: str, code: int) -> None:
    result = _coverage(folder, f"models.py:{workload}", "--fail-on", *gate.split(), torch=torch)
    assert result.code == code and "Traceback" not in result.stderr, result.stderr
    assert result.stderr.startswith("--fail-on: ") == (code == 1)


def test_explain_names_the_judges_that_were_asked(folder: Path) -> None:
    text = " ".join(_coverage(folder, "models.py:late", "--explain", torch="1.13.1").stdout.split())
    assert "no kernel under MPS and no composite one in the library (asked: dtype, fallback, registration)" in text
    assert "a kernel is registered under MPS (asked: dtype, devices, guard, switches, registration)" in text


def test_every_release_at_once(folder: Path) -> None:
    report = _coverage(folder, "models.py:late", "--format", "json", torch="all").json()
    assert report["kind"] == "coverage-matrix" and report["native_since"] == "2.0.0"
    assert {one["operator"] for one in report["operators"]} == {"aten::linear", "aten::cumsum"}
    releases = [cell["target"]["torch"] for cell in report["releases"]]
    assert releases[0] == "1.12.0" and len(releases) == len(set(releases)) >= 30
    findings = {cell["target"]["torch"]: cell["findings"] for cell in report["releases"]}
    assert findings["1.13.1"] == {"aten::cumsum.out": "missing"} and findings["2.0.0"] == {}


def test_a_model_that_raises_still_has_its_report(folder: Path) -> None:
    result = _coverage(folder, "models.py:breaks", "-o", "report.json")
    assert result.code == 2
    assert "the run stopped: ValueError in forward at models.py:43: no such shape" in result.stderr
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    assert [one["operator"] for one in report["operators"]] == ["aten::linear"]
    assert report["failure"]["error"] == "ValueError" and report["failure"]["phase"] == "forward"


def test_options_reach_the_report(folder: Path) -> None:
    training = ("--phase", "training", "--grad-accum", "2", "--format", "json")
    report = _coverage(folder, "models.py:factors", *training, torch="2.15.0").json()
    assert (report["workload"]["phase"], report["workload"]["grad_accum"]) == ("training", 2)
    assert {phase for one in report["operators"] for phase in one["phases"]} == {"forward", "backward", "optimizer"}
    sized = ("--batch-size", "7", "--dtype", "half", "--json")
    report = _coverage(folder, "models.py:clean", *sized, torch="installed").json()
    assert report["workload"]["batch_size"] == 7 and report["operators"][0]["dtypes"] == ["float16"]
    assert report["target"]["torch"] == report["environment"]["torch"].partition("+")[0]


def test_an_export_of_the_report_needs_no_torch(folder: Path) -> None:
    assert _coverage(folder, "models.py:factors", "-o", "report.json").code == 0
    code = "import sys; sys.modules['torch'] = None; from mpsprobe.cli.main import main; sys.exit(main(sys.argv[1:]))"
    done = subprocess.run(
        [sys.executable, "-c", code, "export", "report.json", "--to", "markdown"],
        cwd=folder,
        env=command_environment(),
        capture_output=True,
    )
    assert done.returncode == 0 and b"aten::linalg_svd" in done.stdout, done.stderr


def test_quiet_leaves_the_reason_of_the_exit_code(folder: Path) -> None:
    quiet = ("models.py:missing", "--fail-on", "missing", "-q", "-o", "r.json")
    result = _coverage(folder, *quiet, "--export", "markdown=r.md")
    [reason] = result.stderr.splitlines()
    assert (result.code, result.stdout) == (1, "") and reason.startswith("--fail-on: aten::linalg_eig is missing")
    assert (folder / "r.json").exists() and (folder / "r.md").exists()
    assert run_cli("--quiet", "coverage", *quiet[:1], "-o", "r.json", cwd=folder, process=False).stderr == ""


@pytest.mark.parametrize("command", ["coverage", "run", "fit", "upgrade", "profile"])
def test_the_help_shows_on_one_page_what_is_needed_often(command: str) -> None:
    lines = run_cli(command, "--help", process=False, variables={"COLUMNS": "80"}).stdout.splitlines()
    assert len(lines) <= 40 and max(map(len, lines)) <= 80
    rows = [line for line in lines[lines.index("") :] if line.startswith("  ")]
    rows = rows[rows.index(next(row for row in rows if row.startswith("  -"))) :]
    assert len(rows) <= 15 and all(row.startswith("  -") for row in rows)  # none takes a second line
    whole = run_cli(command, "--help-all", process=False).stdout
    options = [one for one in get_registry().made("command", command).params if isinstance(one, click.Option)]
    assert not [name for option in options for name in option.opts if name not in whole]
    assert lines[-1] == f"mpsprobe {command} --help-all shows {len(options) + 2 - len(rows)} more."


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("coverage --torch 2.12", ["2.12.0", "2.12.1"]),
        ("upgrade 2.12", ["2.12.0", "2.12.1"]),
        ("coverage --chip m3-ul", ["m3-ultra", "m3-ultra-96gb", "m3-ultra-256gb", "m3-ultra-512gb"]),
        ("run --fail-on missing,unk", ["missing,unknown"]),
        ("fit distilb", ["distilbert"]),
        ("coverage gpt2 --jso", ["--json"]),
        ("profile --dtype b", ["bfloat16"]),
        ("coverage --format mark", ["markdown"]),
        ("kernels si", ["since"]),
        ("coverage my_m", ["my_m"]),  # a file
        ("nosuch --", []),
    ],
)
def test_a_shell_completes_names_without_torch(line: str, offered: list[str]) -> None:
    code = "import sys; sys.modules['torch'] = None; from mpsprobe.cli.main import main; main()"
    asked = {"COMP_WORDS": f"mpsprobe {line}", "COMP_CWORD": str(len(line.split()))}
    environment = command_environment({"_MPSPROBE_COMPLETE": "bash_complete", **asked})
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert [item.partition(",")[2] for item in done.stdout.split()] == offered
    assert done.stderr == ""


def test_a_branch_that_values_decide_fails_on_the_side_that_has_a_finding(folder: Path) -> None:
    ended = _coverage(folder, "models.py:branch", "--fail-on", "missing", "-o", "r.md")
    headline, _, reason = ended.stderr.splitlines()
    assert ended.code == 1 and "1 of 8 operators has no MPS kernel on torch 2.13.0, only if models.py:37 is" in headline
    assert ", only if models.py:37 is true: " in reason
    written = (folder / "r.md").read_text(encoding="utf-8")
    assert "  - only if: models.py:37 is true\n" in written and "tried as False and as True" in written
    assert _coverage(folder, "models.py:branch", "--fail-on", "assumed,unknown").code == 0
    assert ",models.py:37 is true," in _coverage(folder, "models.py:branch", "--format", "csv").stdout
    page = _coverage(folder, "models.py:branch", "--format", "html").stdout
    assert "models.py:37\N{NO-BREAK SPACE}is true" in html.unescape(page)


def test_a_loop_that_values_count_is_for_those_who_want_certainty(folder: Path) -> None:
    ended = _coverage(folder, "models.py:loop", "--fail-on", "assumed")
    assert ended.code == 1 and "values say how often a loop runs (models.py:" in ended.stderr
    assert _coverage(folder, "models.py:loop", "--fail-on", "unknown,missing").code == 0


@pytest.mark.parametrize("word", ["assumed", "unknown"])
def test_a_guessed_number_fails_and_says_where(folder: Path, word: str) -> None:
    gate = ("models.py:guess", "--fail-on", word)
    ended = _coverage(folder, *gate, "-o", "r.html")
    assert (ended.code, ended.stdout) == (1, "")
    headline, wrote, reason = ended.stderr.splitlines()
    assert "values were guessed at models.py:81, and others may take another path" in headline
    assert wrote == "wrote r.html"
    assert reason.startswith("--fail-on: values were guessed") and "models.py:81" in reason
    assert "taken as 1.0: `" in reason  # with the line of the program that asked
    assert _coverage(folder, *gate, "--allow", "_local_scalar_dense").code == 0


def test_a_chip_without_its_memory_says_with_which_it_fits(folder: Path) -> None:
    said = " ".join(_coverage(folder, "models.py:clean", "--chip", "m2").stdout.split())
    assert "m2 was sold with 8, 16 or 24 GB: it fits with 8, 16 or 24 GB" in said
    assert "was sold" not in _coverage(folder, "models.py:clean", "--chip", "m2-16gb").stdout


def test_a_guess_is_neither_missing_nor_memory_and_with_values_there_is_none(folder: Path) -> None:
    others = ("--fail-on", "missing,memory", "--memory", "8GB")
    assert _coverage(folder, "models.py:guess", *others).code == 0
    ended = _coverage(folder, "models.py:guess", "--weights", "--fail-on", "assumed")
    assert ended.code == 0 and "guessed" not in ended.stdout


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
    ("--autocast fp32", ["unknown dtype 'fp32'"]),
    ("--fail-on mising", ["unknown verdict 'mising'", "missing"]),
    ("--fail-on ,", ["at least one verdict"]),
    ("--method observed", ["unknown option '--method'", "mpsprobe coverage --help-all"]),
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
    assert {path.name for path in folder.iterdir()} == {"models.py", "all.txt", "taken", "report.json"}


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


class Impatient(pool.Worker):
    """Gives one workload hardly any time."""

    def answer(self, question: Any) -> pool.Answer:
        self.limits = pool.Limits(0.01 if "models.py:waits" in str(question) else 600)
        return super().answer(question)


@pytest.mark.slow
def test_one_that_fails_costs_its_row_alone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "Worker", Impatient)
    exports = [text for name in EXPORTS for text in ("--export", f"{name}=out/{name}")]
    (folder / "out").mkdir()
    result = _coverage(folder, "--workloads", "all.txt", "--jobs", "2", *exports, "--fail-on", "missing")
    assert result.code == 2
    assert "Error: 4 of 7 workloads could not be judged to their end: models.py:raises, models.py:dies" in result.stderr
    text = " ".join(result.stdout.split())
    counted = "1 of 7 workloads has every operator native; 1 has findings; 1 rests on a guess; 4 could not be judged"
    assert text.startswith(counted)
    assert "models.py:dies its process ended with exit code 7" in text and "it took longer than 0.01 s" in text
    written = {name: (folder / "out" / name).read_text(encoding="utf-8") for name in EXPORTS}
    assert all(written.values())
    assert "guessed at models.py:81" in written["markdown"] and "ValueError: no such shape" in written["markdown"]
    report = json.loads(written["json"])
    assert [one["name"] for one in report["workloads"]] == [f"models.py:{name}" for name in NAMES]
    assert report["complete"] and "LookupError: no weights here" in report["workloads"][2]["error"]
    assert report["workloads"][4]["report"]["failure"]["message"] == "no such shape"


@pytest.mark.thorough
def test_the_exit_code_is_of_all_and_the_allowed_are_passed_over(folder: Path) -> None:
    both = ["models.py:clean", "models.py:missing", "--jobs", "1"]
    failing = _coverage(folder, *both, "--fail-on", "missing", torch="2.11.0,2.13.0")
    reasons = failing.stderr.splitlines()
    assert failing.code == 1 and len(reasons) == 2
    assert reasons[0].startswith("--fail-on: models.py:missing: aten::linalg_eig is missing on torch 2.11.0")
    assert "2.11.0-2.13.0" in failing.stdout and "aten::linalg_eig" in failing.stdout
    passing = _coverage(folder, *both, "--fail-on", "missing", "--allow", "linalg_eig", "--format", "json")
    assert passing.code == 0
    assert passing.json()["workloads"][1]["report"]["allowed"] == ["aten::linalg_eig"]


@pytest.mark.slow
def test_ctrl_c_keeps_what_is_finished(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(SilentProgress, "advance", interrupted)
    result = _coverage(folder, "models.py:clean", "models.py:waits", "--jobs", "1", "-o", "report.json")
    assert (result.code, result.stderr.splitlines()[1:]) == (130, ["wrote report.json"])
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    assert not report["complete"] and [one["name"] for one in report["workloads"]] == ["models.py:clean"]


def test_patterns_and_files_name_each_workload_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    registry = get_registry()
    of_file = [f"models.py:{name}" for name in NAMES]
    assert several.names(["bert-*", "bert-base"], ["all.txt"], registry) == ["bert-base", "bert-large", *of_file]
    types = several.names(["hf:*bert*"], [], registry)
    assert {"hf:bert", "hf:modernbert"} <= set(types) and all("bert" in name for name in types)
    assert {"hf:bert/BertModel", "hf:bert/BertForMaskedLM"} <= {*several.names(["hf:bert/*"], [], registry)}
    (folder / "a[1].py").touch()
    assert several.names(["a[1].py:make"], [], registry) == ["a[1].py:make"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "cannot read w.txt: No such file"),
        (b"# nothing\n\n", "w.txt names no workload"),
        (b"\xff\xfe\x00", "w.txt is not text"),
        (b"no-such-*\n", r"no workload fits 'no-such-\*'"),
    ],
)
def test_files_that_name_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch, text: bytes | None, message: str
) -> None:
    monkeypatch.chdir(folder)
    if text is not None:
        (folder / "w.txt").write_bytes(text)
    with pytest.raises(UsageError, match="^" + message) as caught:
        several.names([], ["w.txt"], get_registry())
    assert caught.value.hint


def test_a_device_names_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "is_char_device", lambda _: True)
    with pytest.raises(UsageError, match="is a device, not a file"):
        several.names([], ["w.txt"], get_registry())
