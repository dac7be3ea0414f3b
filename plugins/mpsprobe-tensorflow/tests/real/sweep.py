"""Judges every model of ``keras.applications`` in one process, and lists what was not answered: ``sweep.py PHASE…``."""

from __future__ import annotations

import statistics
import sys
import time

from mpsprobe.errors import MpsprobeError
from mpsprobe.progress import SilentProgress
from mpsprobe.protocols import RunOptions
from mpsprobe_tensorflow.scanner import TensorflowScanner
from mpsprobe_tensorflow.workloads import KerasWorkload, applications


def main() -> int:
    """Print a line for each model and phase, with the seconds of the processor that it took, and a summary."""
    scanner, seconds, failed = TensorflowScanner(), [], 0
    names = applications("the sweep")
    for name in names:
        for phase in sys.argv[1:] or ("inference", "training"):
            started = time.process_time()
            try:
                report = scanner.scan(
                    KerasWorkload(f"keras:{name}"), RunOptions(phase=phase), ["1.2.0"], SilentProgress()
                )
                said = str(report.summary.calls_by_verdict)  # type: ignore[union-attr]
            except MpsprobeError as error:
                said, failed = f"FAILED {error.message}", failed + 1
            seconds.append(time.process_time() - started)
            sys.stdout.write(f"{seconds[-1]:7.2f} s  {name} {phase}: {said}\n")
            sys.stdout.flush()
    median = statistics.median(seconds)
    answered = f"{len(seconds) - failed} of {len(seconds)} answered"
    sys.stdout.write(f"{answered}; median {median:.2f} s of the processor, largest {max(seconds):.1f} s\n")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
