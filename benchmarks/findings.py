"""Reports with many findings in each format: ``python benchmarks/findings.py [4000 100000]``.

Each format is written by a fresh process; the kit for authors makes the reports. Exit code 1 where 100,000 findings
take more than 10 s or 1.5 GB, or 4,000 more than 2 s.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from measure import mpsprobe, run_process

from mpsprobe_devkit.testing import sample_coverage_report

FORMATS = ("html", "table", "json", "markdown", "csv", "junit", "sarif", "annotations", "prometheus")
REACH = {4000: (2.0, 1.5e9), 100_000: (10.0, 1.5e9)}


def main() -> int:
    """Prints a line for each size and format."""
    missed = 0
    for count in [int(one) for one in sys.argv[1:]] or list(REACH):
        report = sample_coverage_report()
        some = report.operators
        many = [some[place % len(some)].model_copy(update={"operator": f"aten::op{place}"}) for place in range(count)]
        with tempfile.TemporaryDirectory(prefix="mpsprobe-bench-") as folder:
            path = Path(folder) / "report.json"
            path.write_text(report.model_copy(update={"operators": many}).model_dump_json(), encoding="utf-8")
            for name in FORMATS:
                taken = run_process(mpsprobe("export", str(path), "--to", name, "-o", str(Path(folder) / name)))
                seconds, peak = REACH.get(count, (float("inf"), float("inf")))
                missed += taken.seconds > seconds or (taken.peak_bytes or 0) > peak
                shown = f"{taken.seconds:.2f} s, processor {taken.cpu_seconds or 0:.2f} s"
                sys.stdout.write(f"{count:>7,} {name:12} {shown}, peak {(taken.peak_bytes or 0) / 1e9:.2f} GB\n")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
