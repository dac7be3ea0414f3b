"""A long run by hand: ``python -m tests.fuzz TARGET COUNT [--seed N] [--first N]``."""

from __future__ import annotations

import argparse
import faulthandler
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path
from random import Random

from tests.fuzz.targets import TARGETS

LONGEST_S = 60  # a case that takes longer hangs: where it is is printed, and the run ends
LARGEST = 10**9  # bytes of the process
MOST_SHOWN = 5


def main() -> int:
    """Run the cases; exit code 1 where one raised what it must not, or took too much memory."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target", choices=TARGETS)
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")  # many changed files make many
    failed, slowest, begun = 0, (0.0, 0), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mpsprobe-fuzz-") as folder:
        attack = TARGETS[arguments.target](Path(folder))
        for number in range(arguments.first, arguments.first + arguments.count):
            faulthandler.dump_traceback_later(LONGEST_S, exit=True)
            started = time.monotonic()
            try:
                attack(Random(f"{arguments.seed} {number}"))
            except Exception:  # noqa: BLE001 - what is looked for
                failed += 1
                if failed <= MOST_SHOWN:
                    sys.stdout.write(f"case {number}\n{traceback.format_exc()}\n")
            slowest = max(slowest, (time.monotonic() - started, number))
            if (number + 1) % 10_000 == 0 or number + 1 == arguments.first + arguments.count:
                worst = f"slowest {slowest[0]:.2f} s (case {slowest[1]}), peak {_peak() / 1e6:.0f} MB"
                taken = f"{failed} failed, {time.monotonic() - begun:.0f} s, {worst}"
                print(f"{arguments.target}, seed {arguments.seed}, {number + 1:,}: {taken}", flush=True)  # noqa: T201
    faulthandler.cancel_dump_traceback_later()
    return int(failed > 0 or _peak() > LARGEST)


def _peak() -> int:
    """Bytes; 0 where the system does not tell."""
    if sys.platform == "win32":
        return 0
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


if __name__ == "__main__":
    sys.exit(main())
