"""Write docs/errors.md from the error classes: what each means, and what to do. `make docs` calls it."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator

import compactor
from compactor.core.model.errors import PAGE, UNEXPECTED, CompactorError, see

HEAD = f"""# Errors

<!-- Written by `make docs` from the docstrings and the `advice` of the classes. -->

Each message of the command line says what happened, where, what was expected instead, and what to do. Below it stands the id of the error's class:

```
compactor: compactor.yaml:4: table student, key orderby: unknown key; did you mean order_by?
{see("config-error")}
```

The id is a heading of this page. In JSON it is `error_id`, beside `error` and `error_class`: in the reports of `compactor run --output json`, in the
`last_run` of `compactor status --output json`, and in log lines with `--log-format json`. The input of a failed run is still in landing.

Errors below [`try-later`](#try-later) need no repair: the same command may succeed later, and ends with exit code 75. All others below
[`refused`](#refused) fail again until somebody has done something, and end with exit code 1.
"""

TAIL = f"""
## {UNEXPECTED}

Any other error, exit code 1. The message begins with `unexpected` and the name of Python's or Java's class.

It is a defect of this program, or a condition of the machine that it does not recognise, such as a full disk.

**What to do:** run again if the message names the machine. Otherwise repeat the command with `-v`, which shows where it happened, and report both.
Nothing that had landed is lost.
"""


def classes(root: type[CompactorError] = CompactorError) -> Iterator[type[CompactorError]]:
    """Yield a class and all below it, in the order of their definition."""
    yield root
    for kind in root.__subclasses__():
        if kind.__module__.startswith("compactor."):
            yield from classes(kind)


def page() -> str:
    """Return the page."""
    for module in pkgutil.walk_packages(compactor.__path__, "compactor."):
        # the DAGs need Airflow, which has an environment of its own; __main__ is the program
        if not module.name.startswith(("compactor.airflow", "compactor.__main__")):
            importlib.import_module(module.name)
    return HEAD + "".join(map(_section, list(classes())[1:])) + TAIL


def _section(kind: type[CompactorError]) -> str:
    parent = kind.__bases__[0]
    below = "" if parent is CompactorError else f", a kind of [`{parent.id}`](#{parent.id})"
    return (
        f"\n## {kind.id}\n\nClass `{kind.__name__}`{below}, exit code {kind.exit_code}.\n\n{inspect.cleandoc(str(kind.__doc__))}\n\n"
        f"**What to do:** {' '.join(kind.__dict__['advice'].split())}\n"
    )


FILES = {PAGE: page}
"""File → function that returns its content."""
