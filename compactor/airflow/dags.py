"""compactor.yaml → DAGs. Read at every parse: nothing here looks at anything but the configuration."""

from __future__ import annotations

import os
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from airflow import __version__ as airflow_version
from airflow.sdk import DAG, Asset, BaseOperator, Param, TaskGroup

from compactor.airflow import alerts
from compactor.airflow.hours import HOUR_PATTERN, KEY_FORMAT
from compactor.airflow.tasks import (
    Announce,
    Approve,
    Asked,
    ByHand,
    Choose,
    If,
    Plan,
    QuarantineAlert,
    Rebuild,
    Replay,
    Run,
    Vacuum,
    Verify,
    WaitForHour,
    Waste,
)
from compactor.config.keys import Table
from compactor.config.sections import Group
from compactor.config.settings import Settings, load
from compactor.config.values import is_s3

START = datetime(2020, 1, 1, tzinfo=timezone.utc)
"""Before every run; DAGs do not catch up by themselves."""

CONFIG = "COMPACTOR_CONFIG"
TAG = "compactor"
BACKOFF: Any = True if BaseOperator.retry_exponential_backoff is False else 2
"""Each delay is twice the one before: a flag in Airflow 3.0, later the factor, of which True would be 1."""

TABLE_NAME = "{{ task.table }}"
"""What a mapped task is called in the UI."""


def settings(dag_file: str) -> Settings:
    """The configuration: COMPACTOR_CONFIG, else compactor.yaml beside the DAG file. Raises ConfigError, which Airflow shows as an import error."""
    return load(os.environ.get(CONFIG) or Path(dag_file).parent / "compactor.yaml")


def asset(configured: Settings, name: str) -> Asset:
    """The asset of a table's view: `<database>.<view>`, with the table's location as its address."""
    spec = configured.spec(name)
    return Asset(name=f"{spec.database}.{spec.view}", uri=spec.root if is_s3(spec.root) else Path(spec.root).as_uri())


def compact(configured: Settings, doc: str | None = None) -> dict[str, DAG]:
    """A DAG `compact_<group>` for each group that has tables: for each table a task group of wait, run, verify."""
    members: dict[str, list[str]] = {}
    for name, table in configured.tables.items():
        members.setdefault(table.group, []).append(name)
    dags = {}
    for group, names in members.items():
        said = _group(configured, group)
        late = alerts.deadlines(str(configured.file), {name: configured.tables[name].deadline for name in names})
        limits = {"max_active_tasks": said.at_once, "max_active_runs": 1, **late}
        with _dag(configured, f"compact_{group}", doc, schedule=_schedule(said), **limits, tags=[TAG, group]) as dag:
            for name in names:
                _compact_table(configured, name, said)
        dags[dag.dag_id] = dag
    return dags


def _compact_table(configured: Settings, name: str, group: Group) -> None:
    config, table, shown = str(configured.file), configured.tables[name], asset(configured, name)
    common: dict[str, Any] = {"config": config, "table": name, **task_settings(table)}
    with TaskGroup(name, tooltip=table.comment or ""):
        wait = WaitForHour(task_id="wait", wait=group.wait, **common)
        run = Run(task_id="run", pool=table.pool, execution_timeout=timedelta(seconds=table.timeout), **common)
        verify = Verify(task_id="verify", files_only=True, asset=shown, reported=f"{name}.run", **common)
        wait >> run >> verify


def maintenance(configured: Settings, doc: str | None = None) -> dict[str, DAG]:
    """A DAG that folds what is worth it, compares every table's view with all that was ever absorbed, reads every kept file, and asks one question:
    may vacuum delete?"""
    config, names, default = str(configured.file), list(configured.names), configured.defaults
    with _dag(configured, "maintenance", doc, schedule=configured.airflow.maintenance, max_active_runs=1, max_active_tasks=2, tags=[TAG]) as dag:
        for name, table in configured.tables.items():
            timeout = timedelta(seconds=table.timeout)
            common: dict[str, Any] = {"config": config, "table": name, "pool": table.pool, "execution_timeout": timeout, **task_settings(table)}
            # a table that cannot run now is verified as it is
            verify = Verify(task_id=f"verify_{name}", files_only=False, deep=True, trigger_rule="all_done", **common)
            # a run takes what has landed, and in a group without schedule only people say when
            if _group(configured, table.group).schedule is not None:
                Run(task_id=f"compact_{name}", compact=True, **common) >> verify
        waste = Waste.partial(task_id="look_for_waste", config=config, map_index_template=TABLE_NAME, **task_settings(default)).expand(table=names)
        wanted = Asked(task_id="anything_to_delete", found=waste.output, question="waste", owner=default.owner, retries=0)
        may = approval(configured, "may_it_be_deleted", "compactor: delete what no kept version needs?", "anything_to_delete")
        vacuum = Vacuum.partial(task_id="vacuum", config=config, map_index_template=TABLE_NAME, pool=default.pool, **task_settings(default))
        wanted >> may >> vacuum.expand(table=wanted.output)
    return {dag.dag_id: dag}


def sync_schemas(configured: Settings, doc: str | None = None) -> dict[str, DAG]:
    """A DAG that tells of new schemas before rows of them land, and asks a person where a table would stop at one."""
    config, default = str(configured.file), configured.defaults
    names = [name for name in configured.names if configured.spec(name).subject or configured.spec(name).avro_schema]
    with _dag(configured, "sync_schemas", doc, schedule=configured.airflow.schemas, max_active_runs=1, max_active_tasks=4, tags=[TAG]) as dag:
        if names:
            told = Announce.partial(task_id="tell", config=config, map_index_template=TABLE_NAME, **task_settings(default)).expand(table=names)
            stopped = Asked(task_id="any_table_stopped", found=told.output, question="schemas", owner=default.owner, retries=0)
            repaired = approval(configured, "is_it_repaired", "compactor: tables stop at a new schema", "any_table_stopped")
            run = Run.partial(task_id="run", config=config, map_index_template=TABLE_NAME, pool=default.pool, **task_settings(default))
            stopped >> repaired >> run.expand(table=stopped.output)
    return {dag.dag_id: dag}


def approval(configured: Settings, name: str, subject: str, asked_by: str) -> BaseOperator:
    """A question to a person, in Airflow's UI; the task `asked_by` has its text. Silence is no."""
    if airflow_version.startswith("3.0."):
        return ByHand(task_id=name, subject=subject, asked_by=asked_by, owner=configured.defaults.owner, retries=0)
    from airflow.providers.standard.operators.hitl import ApprovalOperator

    body = f"{{{{ ti.xcom_pull(task_ids='{asked_by}', key='text') }}}}"
    within = timedelta(seconds=configured.airflow.answer_within)
    found: BaseOperator = ApprovalOperator(
        task_id=name, subject=subject, body=body, defaults="Reject", response_timeout=within, owner=configured.defaults.owner, retries=0
    )
    return found


def backfill(configured: Settings, doc: str | None = None) -> dict[str, DAG]:
    """A DAG for the hand: its form asks for tables and hours; a dry run plans, another runs too."""
    names = list(configured.names)
    params = {
        "tables": Param([], type="array", items={"type": "string", "enum": names}, examples=names, description="None: all of them."),
        "from_hour": Param(None, type=["null", "string"], pattern=HOUR_PATTERN, description="First hour expected, such as 2026-11-20T14; UTC."),
        "to_hour": Param(None, type=["null", "string"], pattern=HOUR_PATTERN, description="Last hour expected; with `from_hour` only."),
        "complete": Param(False, type="boolean", description="Do not run a table of which an expected hour never landed."),
        "reprocess": Param(False, type="boolean", description="First take again what waits in quarantine."),
        "rebuild": Param(False, type="boolean", description="First build each table again from its archive, with the settings of now."),
        "accept_differences": Param(False, type="boolean", description="Publish what was rebuilt although its rows are others."),
        "dry_run": Param(True, type="boolean", description="Tell what would be done, and change nothing."),
    }
    default = configured.defaults
    config = str(configured.file)
    with _dag(configured, "backfill", doc, schedule=None, params=params, max_active_tasks=4, tags=[TAG]) as dag:
        chosen = Choose(task_id="choose", tables=names, owner=default.owner, retries=0)
        plan = Plan.partial(task_id="plan", config=config, map_index_template=TABLE_NAME, **task_settings(default)).expand(table=chosen.output)
        approve = Approve(task_id="approve", tables=chosen.output, owner=default.owner, retries=0)
        common = {"config": config, "map_index_template": TABLE_NAME, "pool": default.pool, **task_settings(default)}
        timeout = timedelta(seconds=default.timeout)
        anew = If(task_id="anew", asked="rebuild", tables=approve.output, owner=default.owner, retries=0)
        rebuild = Rebuild.partial(task_id="rebuild", execution_timeout=timeout, **common).expand(table=anew.output)
        # a table with another key is refused until it is rebuilt
        rule = "none_failed_min_one_success"
        run = Run.partial(task_id="run", execution_timeout=timeout, trigger_rule=rule, **common).expand(table=approve.output)
        again = If(task_id="again", asked="reprocess", tables=approve.output, owner=default.owner, retries=0)
        replay = Replay.partial(task_id="reprocess", execution_timeout=timeout, **common).expand(table=again.output)
        plan >> approve >> anew >> rebuild >> run
        approve >> run
        approve >> again >> replay
    return {dag.dag_id: dag}


def quarantine_alert(configured: Settings, doc: str | None = None) -> dict[str, DAG]:
    """A DAG that fails while anything waits in quarantine."""
    with _dag(configured, "quarantine_alert", doc, schedule=configured.airflow.quarantine, max_active_runs=1, tags=[TAG]) as dag:
        QuarantineAlert(task_id="look", config=str(configured.file), **task_settings(configured.defaults))
    return {dag.dag_id: dag}


def task_settings(table: Table) -> dict[str, Any]:
    """What the table's keys say to each of its tasks."""
    return {
        "owner": table.owner,
        "priority_weight": table.priority,
        "weight_rule": "absolute",
        "retries": table.retries,
        "retry_delay": timedelta(seconds=table.retry_delay),
        "retry_exponential_backoff": BACKOFF,
        "max_retry_delay": timedelta(minutes=30),
        "on_failure_callback": alerts.failed,
    }


def _group(configured: Settings, name: str) -> Group:
    """One that nothing is said of is as it comes."""
    return configured.airflow.groups.get(name, Group())


def _schedule(group: Group) -> Any:
    if not group.partitioned:
        return group.schedule
    from airflow.sdk import CronPartitionTimetable  # Airflow 3.2 on

    # the config allows it for hourly schedules only: the interval before is the hour before
    return CronPartitionTimetable(group.schedule, timezone="UTC", run_offset=-1, key_format=KEY_FORMAT)


def _dag(configured: Settings, name: str, doc: str | None, *, schedule: Any, **more: Any) -> DAG:
    page = configured.airflow.status_page
    doc = f"{doc or ''}\n\n[Where the tables stand]({page})" if page else doc
    return DAG(configured.airflow.prefix + name, schedule=schedule, start_date=START, catchup=False, doc_md=doc, **more)
