"""How many of the statements of people mpsprobe agrees with, by set and class.

    python benchmarks/statements.py [--write] [--all]

The statements are in ``plugins/mpsprobe-coverage/tests/statements``; what they are is said there in ``runner.py``.
Every disagreement is printed: what is expected, what mpsprobe says, where the statement is from. ``--write`` makes them
the list of known disagreements, ``--all`` also prints what agrees.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "plugins/mpsprobe-coverage/tests/statements"
sys.path.insert(0, str(FOLDER))

from runner import CLASSES, DISAGREEMENTS, SETS, Judged, judged, statements, tracer  # noqa: E402


def shares(verdicts: list[Judged]) -> str:
    """A table: agreeing ÷ all, for each set and class."""
    agreed: Counter[tuple[str, str]] = Counter()
    total: Counter[tuple[str, str]] = Counter()
    for one in verdicts:
        for kind in (one.statement.kind, "all"):
            total[one.statement.set, kind] += 1
            agreed[one.statement.set, kind] += one.agrees
    lines = ["".join(f"{title:>16}" for title in ("", *SETS))]
    for kind in (*CLASSES, "all"):
        cells = [f"{agreed[name, kind]} of {total[name, kind]}" if total[name, kind] else "" for name in SETS]
        lines.append("".join(f"{cell:>16}" for cell in (kind, *cells)))
    percent = [f"{100 * agreed[name, 'all'] / total[name, 'all']:.1f} %" for name in SETS]
    refused = [one for one in verdicts if one.statement.expected == "native" and not one.agrees]
    works = sum(one.statement.expected == "native" for one in verdicts)
    return "\n".join([*lines, "".join(f"{cell:>16}" for cell in ("", *percent))]) + (
        f"\nof {works} that work, {len(refused)} are not called native"
    )


def main() -> int:
    """Judge, print, and write the list where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="make the disagreements the known ones")
    parser.add_argument("--all", action="store_true", help="also print what agrees")
    arguments = parser.parse_args()
    started = time.monotonic()
    verdicts = sorted(judged(statements()), key=lambda one: (SETS.index(one.statement.set), one.statement.kind))
    seconds = time.monotonic() - started
    for one in verdicts:
        if arguments.all or not one.agrees:
            said = f"{one.says}. {one.because}"
            statement = one.statement
            mark = "agrees" if one.agrees else "DIFFERS"
            sys.stdout.write(
                f"{mark} {statement.set} {statement.kind}: {statement.id} on {statement.torch}: {statement.expected} "
                f"expected; {said}\n    {statement.source}  {statement.words}\n"
            )
    sys.stdout.write(f"{shares(verdicts)}\n{len(verdicts)} statements in {seconds:.1f} s\n")
    if arguments.write:
        lines = [f"{one.statement.id} = {_quoted(one)}" for one in verdicts if not one.agrees]
        head = f'# Written by: python benchmarks/statements.py --write\ntracer = "{tracer()}"\n'
        text = head + "\n".join(lines) + "\n"
        DISAGREEMENTS.write_text(text, encoding="utf-8")
    return 0


def _quoted(one: Judged) -> str:
    said = f"{one.statement.expected} expected, but {one.says}" + (f" ({one.because})" if one.because else "")
    return json.dumps(said, ensure_ascii=False)


if __name__ == "__main__":
    sys.exit(main())
