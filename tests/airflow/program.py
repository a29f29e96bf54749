"""A program for the runner: `program.py ANSWERS run student ...` does what the file ANSWERS tells for `run student`, or for `run`: for its first three, two, or one words.

It writes down beside ANSWERS what it was asked.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

answers = Path(sys.argv[1])
known = json.loads(answers.read_text(encoding="utf-8"))
told = next((known[words] for words in (" ".join(sys.argv[2:end]) for end in (5, 4, 3)) if words in known), {})
with answers.with_suffix(".asked").open("a", encoding="utf-8") as asked:
    asked.write(json.dumps(sys.argv[2:]) + "\n")
if shows := told.get("shows"):
    # for the test, and for the log of the task
    values = [os.environ.get(name) for name in shows]
    answers.with_suffix(".shown").write_text(json.dumps(values), encoding="utf-8")
    print("the program's environment has", *values, file=sys.stderr)
print(told.get("errors", ""), file=sys.stderr, flush=True)
time.sleep(told.get("seconds", 0))
print(told["output"] if "output" in told else json.dumps(told.get("found", [])))
sys.exit(told.get("code", 0))
