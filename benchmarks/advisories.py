"""How many reports of an atlas have a known wrong result, by release and by advisory.

    python benchmarks/advisories.py [STORE] [--torch 2.15.0,2.13.0,2.8.0]

STORE is what ``mpsprobe atlas sweep`` wrote; without it, the atlas that mpsprobe-atlas comes with. An advisory that
many models have is either common or noise: who adds one looks at its share here.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter

from mpsprobe_atlas.answering import data_file
from mpsprobe_atlas.reading import judged
from mpsprobe_atlas.store import Store

SHOWN = 10


def main() -> int:
    """Print a table for each release."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", nargs="?", default=data_file())
    parser.add_argument("--torch", default="2.15.0,2.13.0,2.8.0", help="releases, with commas between them")
    arguments = parser.parse_args()
    releases = arguments.torch.split(",")
    rows: Counter[str] = Counter()
    advised: Counter[str] = Counter()
    by_advisory = {release: Counter[str]() for release in releases}
    with Store(arguments.store) as store:
        for row in judged(store):
            for release in releases:
                if (run := row.runs.get(release)) is not None:
                    rows[release] += 1
                    advised[release] += bool(run.advisories)
                    by_advisory[release].update(run.advisories.keys())
    for release in releases:
        share = 100 * advised[release] / max(rows[release], 1)
        sys.stdout.write(f"torch {release}: {advised[release]} of {rows[release]} rows, {share:.1f} %\n")
        for name, count in by_advisory[release].most_common(SHOWN):
            sys.stdout.write(f"    {100 * count / rows[release]:5.1f} %  {name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
