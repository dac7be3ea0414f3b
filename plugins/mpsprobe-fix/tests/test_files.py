"""Files that are strange, what is written and what never is, and the command itself."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from mpsprobe.errors import MpsprobeError
from mpsprobe.output import as_bytes
from mpsprobe_fix import proof
from mpsprobe_fix.command import fix
from mpsprobe_fix.files import gather

CODE = "import torch\n\nx = torch.ones(3).cuda()\nprint(x.sum().item())\n"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(fix, [*arguments])


def test_the_diff_is_one_that_git_applies_and_writes_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.py").write_text(CODE)
    (tmp_path / "end.py").write_text(CODE.rstrip())
    diff = run("a.py", "end.py").stdout
    assert (tmp_path / "a.py").read_text() == CODE
    (tmp_path / "p.diff").write_text(diff)
    subprocess.run(["git", "apply", "p.diff"], cwd=tmp_path, check=True)
    applied = (tmp_path / "a.py").read_text(), (tmp_path / "end.py").read_text()
    assert "DEVICE" in applied[0] and not applied[1].endswith("\n")
    (tmp_path / "a.py").write_text(CODE)
    assert "written" in run("a.py", "--write").stderr
    assert (tmp_path / "a.py").read_text() == applied[0]
    assert "nothing to edit" in run(".").stderr


def test_encodings_and_line_ends_and_marks_are_kept(tmp_path: Path) -> None:
    old = "# -*- coding: latin-1 -*-\r\nimport torch\r\n\r\nx = torch.ones(3).cuda()  # größer\r\n"
    (tmp_path / "a.py").write_bytes(old.encode("latin-1"))
    (tmp_path / "b.py").write_bytes(b"\xef\xbb\xbf" + CODE.encode())
    run(str(tmp_path), "--write")
    new = (tmp_path / "a.py").read_bytes()
    assert "größer".encode("latin-1") in new and b"\n" not in new.replace(b"\r\n", b"")
    assert (tmp_path / "b.py").read_bytes().startswith(b"\xef\xbb\xbfimport torch")


def test_what_cannot_be_fixed_is_one_line_each(tmp_path: Path) -> None:
    outside = tmp_path / "outside.py"
    outside.write_text(CODE)
    inside = tmp_path / "in"
    inside.mkdir()
    (inside / "broken.py").write_text("def (:\n")
    (inside / "nul.py").write_bytes(b"x = 'cuda\x00'")
    (inside / "bad.py").write_bytes(b"x = '\xff'")
    (inside / "notes.txt").write_text("cuda")
    (inside / "read_only.py").write_text(CODE)
    (inside / "read_only.py").chmod(0o444)
    (inside / "link.py").symlink_to(outside)
    (inside / "note.ipynb").write_text("[]")
    with (inside / "hole.py").open("wb") as file:
        file.truncate(10**12)
    (inside / "good.py").write_text(CODE)
    result = run(str(inside), str(inside / "notes.txt"), "--write", "--force")
    lines = [line.split(":", 1)[1] for line in result.stderr.splitlines() if "not changed" in line]
    assert len(lines) == 8, result.stderr
    assert outside.read_text() == CODE and (inside / "read_only.py").read_text() == CODE
    assert "DEVICE" in (inside / "good.py").read_text()


def test_a_notebook_keeps_its_outputs_and_what_only_ipython_reads(tmp_path: Path) -> None:
    cells = [
        {"cell_type": "markdown", "metadata": {}, "source": ["# cuda\n"]},
        {"cell_type": "code", "metadata": {}, "outputs": [], "source": ["%matplotlib inline\n", "import torch"]},
        {"cell_type": "code", "metadata": {}, "outputs": [{"text": ["tensor é"]}], "source": [
            "x = torch.ones(3).cuda()\n", "if True:\n", "    !nvidia-smi\n", "x",
        ]},
        {"cell_type": "code", "metadata": {}, "outputs": [], "source": ["%%bash\n", "echo cuda"]},
        {"cell_type": "code", "metadata": {}, "outputs": [], "source": ["files = !ls"]},
    ]  # fmt: skip
    path = tmp_path / "a.ipynb"
    path.write_text(json.dumps({"cells": cells, "nbformat": 4}, indent=1, ensure_ascii=False) + "\n")
    run(str(path), "--write", "--force")
    made = json.loads(path.read_text())["cells"]
    assert "".join(made[1]["source"]).startswith("%matplotlib inline\nimport torch\n\nDEVICE = ")
    cells[2]["source"][0] = "x = torch.ones(3).to(DEVICE)\n"  # type: ignore[index]
    assert [made[0], *made[2:]] == [cells[0], *cells[2:]]
    assert "nothing to edit" in run(str(path)).stderr


def test_a_dirty_tree_wants_force(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    (tmp_path / "a.py").write_text(CODE)
    result = run(str(tmp_path), "--write")
    assert isinstance(result.exception, MpsprobeError) and "--force" in str(result.exception)
    assert (tmp_path / "a.py").read_text() == CODE
    assert run(str(tmp_path), "--write", "--force").exit_code == 0


def test_no_program_of_the_repository_is_started(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(CODE)
    (tmp_path / ".gitattributes").write_text("*.py filter=a=b\n")
    identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "core.hooksPath=/dev/null"]
    for command in (["init"], ["add", "."], ["commit", "-m", "a"], ["config", "filter.a=b.clean", "touch ran; cat"]):
        subprocess.run(["git", *identity, *command], cwd=tmp_path, check=True, capture_output=True)
    hook = tmp_path / ".git/hooks/post-index-change"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\ntouch ran\n")
    hook.chmod(0o755)
    os.utime(tmp_path / "a.py", (1, 1))  # git has to look into it
    assert "written" in run(str(tmp_path), "--write").stderr
    assert not (tmp_path / "ran").exists()


def test_an_interrupted_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.py").write_text(CODE)
    [source] = gather([str(tmp_path)]).sources

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    monkeypatch.setattr(Path, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        source.write("new")
    monkeypatch.undo()
    assert (tmp_path / "a.py").read_bytes() == as_bytes(CODE)
    assert [one.name for one in tmp_path.iterdir()] == ["a.py"]


def test_what_was_changed_meanwhile_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inner, outside = tmp_path / "in", tmp_path / "outside.py"
    inner.mkdir()
    for path in (inner / "a.py", inner / "b.py", inner / "c.py", inner / "d.py", outside):
        path.write_text(CODE)
    changed, replaced, gone, late = gather([str(inner)]).sources
    (inner / "a.py").write_text("new")
    (inner / "b.py").unlink()
    (inner / "b.py").symlink_to(outside)
    (inner / "c.py").unlink()
    for source in (changed, replaced, gone):
        with pytest.raises(MpsprobeError, match="changed while"):
            source.write("edited")
    synced = os.fsync

    def linked(descriptor: int) -> None:
        synced(descriptor)
        (inner / "d.py").unlink()
        (inner / "d.py").symlink_to(outside)

    monkeypatch.setattr(os, "fsync", linked)
    with pytest.raises(MpsprobeError, match="changed while"):
        late.write("edited")
    assert not list(inner.glob(".mpsprobe-*"))
    assert (inner / "a.py").read_text() == "new" and outside.read_text() == CODE


def test_a_name_that_draws_on_the_terminal_is_quoted(tmp_path: Path) -> None:
    (tmp_path / "a\x1b[31m\n.py").write_text(CODE)
    result = run(str(tmp_path))
    assert "\\033[31m\\012.py" in result.stdout and "\x1b" not in result.output


def test_only_skip_and_keep(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text(CODE + "y = torch.ones(3).cuda()  # mpsprobe: keep\ntorch.cuda.synchronize()\n")
    assert "synchronize()\n+" not in run(str(path), "--only", "cuda-method").stdout
    assert "+x =" not in run(str(path), "--skip", "cuda-method").stdout
    assert "-y = " not in run(str(path)).stdout
    wrong = run(str(path), "--only", "cuda-methode").exception
    assert isinstance(wrong, MpsprobeError) and "did you mean 'cuda-method'" in wrong.message
    assert "cuda-method" in run("--rules").stdout


def test_outputs_are_the_same_but_for_devices_times_and_the_last_digits() -> None:
    assert proof._differences("loss 0.50000 on cpu in 1.2 s\n", "loss 0.50001 on mps:0 in 9 s\n") is None
    assert proof._differences("loss 0.5\n", "loss 0.6\n")
    assert proof._differences("a\nb\n", "a\n")


def test_lines_that_no_rule_is_about_stay_letter_by_letter(tmp_path: Path) -> None:
    """libcst does not see them: they are put back after its walk."""
    long = "def f():\n" + "".join(f"    x{number} = {{ {number} :1 }}  # {number}\n" for number in range(9)) + "\n\n"
    part = 'if x:\n    y  =  1\nelif z:\n    a = """\ncuda"""\n    b = 1\n    c = 2\n    d = 3\n    e =4\n\n'
    code = f"import torch\n\n{long}{part}{long}x = torch.ones(3).cuda()\n{part}{long}"
    (tmp_path / "a.py").write_text(code)
    (tmp_path / "b.py").write_text(f"{code}pass  # mpsprobe-hidden 0\n")  # a mark that is the program's own
    assert "2 edits in 2 files" in run(str(tmp_path), "--write").stderr
    head = 'DEVICE = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"\n'
    wanted = code.replace("import torch\n", f"import torch\n\n{head}", 1).replace(".cuda()", ".to(DEVICE)")
    assert (tmp_path / "a.py").read_text() == wanted
    assert (tmp_path / "b.py").read_text() == f"{wanted}pass  # mpsprobe-hidden 0\n"


@pytest.mark.slow
def test_a_program_that_does_not_end_proves_nothing_and_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "log.txt").write_text("mine")
    (tmp_path / "a.py").write_text(CODE + "open('log.txt', 'w').write('theirs')\nwhile True: pass\n")
    result = run("a.py", "--run", "a.py", "--timeout", "5")
    assert result.exit_code == 1 and "--timeout" in result.stderr
    assert (tmp_path / "log.txt").read_text() == "mine"


@pytest.mark.slow
def test_a_run_proves_the_patch_or_says_what_did_not_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    code = CODE + "torch.manual_seed(0)\nprint(torch.linalg.eigvals(x.diag()).abs().sum().item())\n"
    (tmp_path / "a.py").write_text(code)
    result = run("a.py", "--run", "python a.py")
    assert result.exit_code == 0 and "proved" in result.stderr, result.stderr
    assert "+print(on_cpu(torch.linalg.eigvals, x.diag())" in result.stdout
    result = run("a.py", "--run", "a.py", "--skip", "missing-operator", "--write", "--force")
    assert result.exit_code == 1 and "a Mac refuses it still: aten::_linalg_eigvals" in result.stderr
    assert (tmp_path / "a.py").read_text() == code
