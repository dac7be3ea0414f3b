"""What every file keeps to, and plain English: phrases that sound translated stay out."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.house.tree import PLUGINS, ROOT, files, parsed, python_files, shown

MOST_LINES = 600
NAMES_THAT_SAY_NOTHING = {"utils", "util", "common", "helpers", "helper", "base", "misc"}
TEXT = {".py", ".md", ".toml", ".txt", ".yml", ".yaml", ".cfg", ".sh", ""}
SOURCES = [ROOT / "mpsprobe", *(plugin / "src" for plugin in PLUGINS)]

# Spelt in pieces, so that this file does not hold what it forbids.
MACHINE_PATHS = ["/" + "work/", "/" + "tmp/w", "/" + "root/"]
INDEX_HOSTS = ["py" + "pi.org", "python" + "hosted.org", "download." + "pytorch.org"]
UNFINISHED = ["TO" + "DO", "FIX" + "ME", "X" + "XX"]
DANGEROUS = {
    r"^\s*(import|from) (pickle|dill|cloudpickle|shelve|marshal)\b": "unpickling runs code of the file",
    r"weights_only\s*=\s*False": "unpickling runs code of the file",
    r"trust_remote_code\s*(:\s*bool\s*)?=\s*True": "only the user's flag may turn it on",
    r"allow_pickle\s*=\s*True": "unpickling runs code of the file",
    r"\b(os\.fork|os\.system|/proc/)": "not on every platform",
}
NOT_RUN = r"pytest\.(skip|importorskip|xfail|mark\.(skip|skipif|xfail))\b"


def _texts() -> list[Path]:
    return [path for path in files() if path.suffix in TEXT]


def test_no_file_is_long() -> None:
    read = [path for path in _texts() if path.suffix in {".py", ".md", ".sh"}]
    lines = {shown(path): path.read_text(encoding="utf-8").count("\n") for path in read}
    assert not {path: count for path, count in lines.items() if count > MOST_LINES}


def test_every_file_name_says_something() -> None:
    assert not [
        shown(path) for path in files() if NAMES_THAT_SAY_NOTHING & set(path.relative_to(ROOT).with_suffix("").parts)
    ]


def test_a_source_file_says_what_it_is_for() -> None:
    assert not [shown(path) for path in python_files() if parsed(path).body and not ast.get_docstring(parsed(path))]


def test_annotations_are_not_evaluated() -> None:
    """But for files that only name things; ``mpsprobe/__init__.py`` imports nothing at all."""
    only_name = (ast.Expr, ast.Import, ast.ImportFrom, ast.Assign)
    wrong = [
        shown(path)
        for path in python_files()
        for body in [parsed(path).body]
        if not any(isinstance(node, ast.ImportFrom) and node.module == "__future__" for node in body)
        and not all(isinstance(node, only_name) for node in body)
    ]
    assert wrong == ["mpsprobe/__init__.py"]


def test_nothing_ties_the_tree_to_a_machine_and_nothing_is_unfinished() -> None:
    unwanted = re.compile("|".join([*map(re.escape, MACHINE_PATHS + INDEX_HOSTS), rf"\b({'|'.join(UNFINISHED)})\b"]))
    found = [
        f"{shown(path)}:{number}: {line.strip()[:80]}"
        for path in _texts()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if unwanted.search(line)
    ]
    assert not found


def test_the_product_does_nothing_dangerous() -> None:
    sources = {path: path.read_text(encoding="utf-8") for folder in SOURCES for path in python_files(folder)}
    assert not [
        f"{shown(path)}: {reason}"
        for pattern, reason in DANGEROUS.items()
        for path, text in sources.items()
        if re.search(pattern, text, re.MULTILINE)
    ]


def test_every_test_runs() -> None:
    tests = [path for path in python_files() if "tests" in path.relative_to(ROOT).parts]
    assert len(tests) > 20
    mine = Path(__file__).resolve()
    assert not [shown(path) for path in tests if path != mine and re.search(NOT_RUN, path.read_text(encoding="utf-8"))]


PHRASES = {
    r"told": "'reported', 'shown', 'named': say who does what",
    r"held against": "'compared with'",
    r"beside": "'next to', 'with', 'besides', 'in addition to'",
    r"(say|says|said) of": "'says about'",
    r"what it comes to": "the sum, the result",
    r"lead elsewhere": "'the result may be different'",
    r"equal neighbours": "'successive releases with the same verdicts'",
    r"checks hold": "'checks are true'",
    r"torch that traced": "'the torch that ran the trace'",
    r"a (exporter|operator|error|option|int|argument|environment|element|event)": "'an'",
}
PROSE = {".py", ".md", ".tmpl", ".toml", ".yaml", ".yml", ".cpp", ".h", ".sh", ".css", ".js"}
NOT_READ = ("docs/gallery/", "CHANGELOG.md", shown(ROOT / "tests/house/test_files.py"))
"""The gallery is what exporters write; the changelog is history."""


def test_phrases_that_sound_translated_stay_out() -> None:
    unwanted = re.compile(rf"\b({'|'.join(PHRASES)})\b", re.IGNORECASE)
    found = [
        f"{shown(path)}:{number}: '{hit[0]}'"
        for path in files()
        if path.suffix in PROSE and not shown(path).startswith(NOT_READ)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        for hit in unwanted.finditer(line)
    ]
    assert not found, "\n".join([*found, "", "Say instead:", *(f"{one}: {other}" for one, other in PHRASES.items())])
