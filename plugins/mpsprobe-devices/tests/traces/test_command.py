"""``mpsprobe import``."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from trace_files import packed, write, x

from mpsprobe_devkit.testing import run_cli

EVENTS = [x(f"ProfilerStep#{number}", "user_annotation", number * 100, 90) for number in range(3)]
EVENTS += [x("aten::mm", "cpu_op", number * 100 + 10, 20) for number in range(3)]


def test_a_trace_becomes_a_report_file(tmp_path: Path) -> None:
    target = tmp_path / "report.json"
    result = run_cli("import", packed(write(tmp_path, EVENTS)), "-o", target, process=False)
    assert (result.code, result.stdout) == (0, "")
    report = json.loads(target.read_text())
    assert report["kind"] == "profile" and report["cells"][0]["operators"][0]["calls"] == 3
    assert run_cli("export", target, "--to", "chrome", process=False).stdout.startswith('{"schemaVersion"')


def test_a_trace_is_shown_as_a_table_without_a_file(tmp_path: Path) -> None:
    result = run_cli("import", write(tmp_path, EVENTS), process=False)
    assert result.code == 0 and "step of run takes 90.0 µs" in result.stdout
    assert "0 parameters" not in result.stdout  # it is not known how many
    assert "under a profiler" in " ".join(result.stdout.split())


def test_the_limit_of_a_trace_is_kept_and_told(tmp_path: Path) -> None:
    result = run_cli("import", write(tmp_path, EVENTS), "--limit", "2", "--format", "json", process=False)
    [cell] = result.json()["cells"]
    assert len(cell["trace"]["start_ns"]) == 2 and cell["trace"]["truncated"] == 4
    assert cell["operators"][0]["calls"] == 3


def test_what_is_no_trace_is_refused_in_words(tmp_path: Path) -> None:
    wrong = {"": "is empty", "not JSON": "is not JSON", '{"a": 1}': "traceEvents", '{"traceEvents": []}': "no event"}
    for content, says in wrong.items():
        path, out = tmp_path / "x\x1b.json", tmp_path / "out.json"
        path.write_text(content)
        result = run_cli("import", path, "-o", out, process=False)
        assert result.code == 2 and says in result.stderr and "\x1b" not in result.stderr
        assert "export_chrome_trace" in result.stderr and not out.exists()


def test_a_place_that_cannot_be_written_is_told_before_the_trace_is_read(tmp_path: Path) -> None:
    result = run_cli("import", "none.json", "-o", tmp_path / "no" / "out.json", process=False)
    assert result.code == 2 and "its folder does not exist" in result.stderr
    assert "none.json" in run_cli("import", "none.json", process=False).stderr


def test_it_needs_neither_torch_nor_transformers(tmp_path: Path) -> None:
    program = (
        "import sys; from mpsprobe.cli.main import main; code = main(sys.argv[1:]); "
        "assert not {'torch', 'transformers'} & set(sys.modules); sys.exit(code)"
    )
    command = [sys.executable, "-c", program, "import", write(tmp_path, EVENTS)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
