"""How many of the statements of people mpsprobe agrees with, by set and class.

    python benchmarks/statements.py [--write | --file PATH] [--all]

The statements are in ``plugins/mpsprobe-coverage/tests/statements``; what they are is said there in ``runner.py``.
Every disagreement is printed: what is expected, what mpsprobe says, where the statement is from. ``--write`` makes them
the list of known disagreements, ``--all`` also prints what agrees. ``--file`` judges a file of statements that is kept
outside the repository, so that nothing is fitted to it: of these, only the identifier and the class are printed.
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

from runner import CLASSES, DISAGREEMENTS, Judged, judged, statements, tracer  # noqa: E402


def shares(verdicts: list[Judged]) -> str:
    """A table: agreeing ÷ all, for each set and class."""
    agreed: Counter[tuple[str, str]] = Counter()
    total: Counter[tuple[str, str]] = Counter()
    for one in verdicts:
        for kind in (one.statement.kind, "all"):
            total[one.statement.set, kind] += 1
            agreed[one.statement.set, kind] += one.agrees
    sets = list(dict.fromkeys(one.statement.set for one in verdicts))
    lines = ["".join(f"{title:>16}" for title in ("", *sets))]
    for kind in (*CLASSES, "all"):
        cells = [f"{agreed[name, kind]} of {total[name, kind]}" if total[name, kind] else "" for name in sets]
        if any(cells):
            lines.append("".join(f"{cell:>16}" for cell in (kind, *cells)))
    percent = [f"{100 * agreed[name, 'all'] / total[name, 'all']:.1f} %" for name in sets]
    works = [one for one in verdicts if one.statement.wanted in ("native", "right")]
    refused = sum(not one.agrees for one in works)
    return "\n".join([*lines, "".join(f"{cell:>16}" for cell in ("", *percent))]) + (
        f"\nof {len(works)} that work, {refused} are not said to"
    )


def main() -> int:
    """Judge, print, and write the list where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--write", action="store_true", help="make the disagreements the known ones")
    only.add_argument("--file", type=Path, metavar="PATH", help="judge the statements of this file alone")
    parser.add_argument("--all", action="store_true", help="also print what agrees")
    arguments = parser.parse_args()
    started = time.monotonic()
    chosen = statements(*[arguments.file] if arguments.file else [])
    order = {statement.set: place for place, statement in enumerate(chosen)}
    verdicts = sorted(judged(chosen), key=lambda one: (order[one.statement.set], one.statement.kind))
    seconds = time.monotonic() - started
    for one in verdicts:
        if arguments.all or not one.agrees:
            statement = one.statement
            line = f"{'agrees' if one.agrees else 'DIFFERS'} {statement.set} {statement.kind}: {statement.id}"
            if not arguments.file:
                line += f" on {statement.torch}: {_said(one)}\n    {statement.source}  {statement.words}"
            sys.stdout.write(line + "\n")
    sys.stdout.write(f"{shares(verdicts)}\n{len(verdicts)} statements in {seconds:.1f} s\n")
    if arguments.write:
        differ = [one for one in verdicts if not one.agrees]
        lines = [f"{one.statement.id} = {json.dumps(_said(one), ensure_ascii=False)}" for one in differ]
        head = f'# Written by: python benchmarks/statements.py --write\ntracer = "{tracer()}"\n'
        text = head + "\n".join(lines) + "\n"
        DISAGREEMENTS.write_text(text, encoding="utf-8")
    return 0


def _said(one: Judged) -> str:
    said = f"{one.statement.wanted} expected, {one.says} said" + (f" ({one.because})" if one.because else "")
    return said + (f"; advised by {', '.join(one.advisories)}" if one.advisories else "")


if __name__ == "__main__":
    sys.exit(main())
