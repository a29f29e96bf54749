"""Run by test_spark_on_s3.py in a process of its own: one Spark application after another's death, run after run, until somebody kills it.

    python -m tests.faults_real.spark_runner CONFIG

Prints `ready`, then a line a run. Exits with the code of a run that was refused; one that is to try again later goes on.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from compactor.app.app import App
from compactor.demo import SPARK


def main(config: Path) -> int:
    """The caller decides when it is over; only when the caller itself is gone it ends by itself."""
    caller = os.getppid()
    with App.open(config, wait=60.0, conf=SPARK) as app:
        print("ready", flush=True)
        while os.getppid() == caller:
            (report,) = app.run()
            print(report.outcome, report.error_class or "", *report.operations, report.error or "", flush=True)
            if report.exit_code not in (0, 75):
                return report.exit_code
            time.sleep(0.2)
    return 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
