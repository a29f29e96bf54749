"""Run by test_kill.py in a process of its own: hour after hour lands and is absorbed, until somebody kills it.

    python -m tests.faults_real.driver ROOT

Begins with a run of whatever its predecessor left, as a scheduler would. Exits with the code of a run that did not succeed.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from compactor.app.app import App
from compactor.demo import SPARK
from tests.faults_real import feed


def main(root: Path) -> int:
    """The caller decides when it is over; only when the caller itself is gone it ends by itself."""
    caller = os.getppid()
    with App.open(root / "compactor.yaml", wait=60.0, conf=SPARK) as app:
        hour = feed.delivered(root)
        while os.getppid() == caller:
            for report in app.run():
                print(hour, report.outcome, *report.operations, report.error or "", flush=True)
                if report.exit_code:
                    return report.exit_code
            feed.deliver(root, hour)
            hour += 1
    return 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
