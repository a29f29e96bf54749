"""DAGs from compactor.yaml. `dags.py` builds them, `command.py`, `group.py` and `operators.py` have the operators, `triggers.py` the triggers, and
`alerts.py` the callbacks; these modules import Airflow. `hours.py` and `outcome.py` decide without it. No module imports PySpark."""
