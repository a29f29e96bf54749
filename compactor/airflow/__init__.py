"""DAGs from compactor.yaml. `dags.py` and `tasks.py` are the only modules that import Airflow; none imports PySpark."""
