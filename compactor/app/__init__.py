"""The application: what the command line, Airflow and Python programs call. `App` reads a configuration, starts Spark when something needs it, and
has a method for each command that needs more than its table. `base` has the settings and the runtime, `versions` and `runners` the methods for
versions and for other machines, `app` all the others. The remaining modules are functions that the App calls, one module a subject.

    from compactor.app import App

    with App.open("compactor.yaml") as app:
        reports = app.run()
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from compactor.app.app import App

__all__ = ["App"]


def __getattr__(name: str) -> Any:
    # imported on first use: modules of this package that the help texts need load nothing else
    if name != "App":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from compactor.app.app import App

    return App
