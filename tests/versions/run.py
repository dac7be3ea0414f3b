"""The tests that depend on torch and transformers, on the oldest or the newest that are supported.

``python tests/versions/run.py oldest`` (or ``newest``) makes an environment for them in a temporary folder; further
arguments go to pytest. The versions and the folders are those of tests/supported.toml. pip takes what its own settings
say: with the index of torch's CPU builds among them (``PIP_EXTRA_INDEX_URL``) nothing of CUDA is fetched.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SUPPORTED = tomllib.loads((ROOT / "tests" / "supported.toml").read_text(encoding="utf-8"))


def constraints(end: str) -> list[str]:
    """The lines of constraints.txt, with torch and transformers of the ``end`` and without what only fits others."""
    free = SUPPORTED["tests"]["free"]
    pins = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    kept = [pin for pin in pins if pin.partition("==")[0] not in free]
    return [*kept, *(f"{name}=={SUPPORTED[name][end]}" for name in ("torch", "transformers"))]


def requirements() -> list[str]:
    """Those of requirements-test.txt and requirements.txt, without the constraints."""
    texts = [(ROOT / name).read_text(encoding="utf-8") for name in ("requirements.txt", "requirements-test.txt")]
    return [line for text in texts for line in text.splitlines() if not re.match(r"#|-c|-r", line)]


def main(end: str, *arguments: str) -> int:
    """Make the environment, say what is in it, and run pytest. Returns its exit code."""
    with tempfile.TemporaryDirectory(prefix="mpsprobe-versions.") as folder:
        venv.create(folder, with_pip=True)
        python = Path(folder, "Scripts" if sys.platform == "win32" else "bin", "python")
        for name, lines in {"constraints.txt": constraints(end), "requirements.txt": requirements()}.items():
            Path(folder, name).write_text("\n".join(lines), encoding="utf-8")
        install = ["-m", "pip", "install", "-q", "-c", f"{folder}/constraints.txt", "-r", f"{folder}/requirements.txt"]
        subprocess.run([python, *install], cwd=ROOT, check=True)
        subprocess.run([python, "-m", "pip", "list"], cwd=ROOT, check=True)
        tests = [python, "-m", "pytest", *SUPPORTED["tests"]["folders"], *arguments]
        return subprocess.run(tests, cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    if sys.argv[1:2] not in (["oldest"], ["newest"]):
        sys.exit("say which: python tests/versions/run.py oldest|newest [arguments of pytest]")
    sys.exit(main(*sys.argv[1:]))
