"""Build the DAGs from compactor.yaml. Airflow parses DAG files often, so this module reads only the configuration."""

from __future__ import annotations

import os
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from airflow import __version__ as airflow_version
from airflow.sdk import DAG, Asset, BaseOperator, Param, TaskGroup

from compactor.airflow import alerts
from compactor.airflow.gates import (
    ApproveByMarkingOperator,
    ChooseTablesOperator,
    PrepareQuestionOperator,
    SkipIfDryRunOperator,
    SkipUnlessOperator,
)
from compactor.airflow.hours import HOUR_PATTERN, KEY_FORMAT
from compactor.airflow.operators import (
    CheckQuarantineOperator,
    NotifySchemaChangesOperator,
    PlanOperator,
    RebuildOperator,
    ReplayQuarantineOperator,
    RunOperator,
    VacuumDryRunOperator,
    VacuumOperator,
    VerifyOperator,
    WaitForHourOperator,
)
from compactor.config.keys import Table
from compactor.config.sections import Group
from compactor.config.settings import Settings, load
from compactor.config.values import is_s3

START = datetime(2020, 1, 1, tzinfo=timezone.utc)
"""A date before every run. DAGs do not catch up."""

CONFIG = "COMPACTOR_CONFIG"
TAG = "compactor"
BACKOFF: Any = True if BaseOperator.retry_exponential_backoff is False else 2
"""Double the delay with each retry. Airflow 3.0 expects a flag, later versions the factor."""

TABLE_NAME = "{{ task.table }}"
"""Name of a mapped task in the UI."""


def settings(dag_file: str) -> Settings:
    """Read the configuration: COMPACTOR_CONFIG, otherwise compactor.yaml beside the DAG file. Airflow shows a ConfigError as an import error."""
    return load(os.environ.get(CONFIG) or Path(dag_file).parent / "compactor.yaml")


def asset(configured: Settings, name: str) -> Asset:
    """Return the asset of a table's view: `<database>.<view>`, with the table's location as URI."""
    spec = configured.spec(name)
    return Asset(name=f"{spec.database}.{spec.view}", uri=spec.root if is_s3(spec.root) else Path(spec.root).as_uri())


def compact(configured: Settings, doc: str | None = None) -> dict[str, DAG]:
    """Return a DAG `compact_<group>` for each group that has tables. It has a task group with wait, run and verify for each table."""
    members: dict[str, list[str]] = {}
    for name, table in configured.tables.items():
        members.setdefault(table.group, []).append(name)
    dags = {}
    for group, names in members.items():
        options = _group(configured, group)
        late = alerts.deadlines(str(configured.file), {name: configured.tables[name].deadline for name in names})
        limits = {"max_active_tasks": options.at_once, "max_active_runs": 1, **late}
        with _dag(configured, f"compact_{group}", doc, schedule=_schedule(options), **limits, tags=[TAG, group]) as dag:
            for name in names:
                _compact_table(configured, name, options)
        dags[dag.dag_id] = dag
    return dags


def _compact_table(configured: Settings, name: str, group: Group) -> None:
    config, table, shown = str(configured.file), configured.tables[name], asset(configured, name)
    common: dict[str, Any] = {"config": config, "table": name, **task_settings(table)}
    with TaskGroup(name, tooltip=table.comment or ""):
        wait = WaitForHourOperator(task_id="wait", wait=group.wait, **common)
        run = RunOperator(task_id="run", pool=table.pool, execution_timeout=timedelta(seconds=table.timeout), **common)
        verify = VerifyOperator(task_id="verify", files_only=True, asset=shown, reported=f"{name}.run", **common)
        wait >> run >> verify


def maintenance(configured: Settings, doc: str | None = None) -> dict[str, DAG]:
    """Return the DAG that compacts and verifies every table in full, and vacuums after a person's approval."""
    config, names, default = str(configured.file), list(configured.names), configured.defaults
    with _dag(configured, "maintenance", doc, schedule=configured.airflow.maintenance, max_active_runs=1, max_active_tasks=2, tags=[TAG]) as dag:
        for name, table in configured.tables.items():
            timeout = timedelta(seconds=table.timeout)
            common: dict[str, Any] = {"config": config, "table": name, "pool": table.pool, "execution_timeout": timeout, **task_settings(table)}
            # verify also if the run failed
            verify = VerifyOperator(task_id=f"verify_{name}", files_only=False, deep=True, trigger_rule="all_done", **common)
            # a group without schedule is only run by people
            if _group(configured, table.group).schedule is not None:
                RunOperator(task_id=f"compact_{name}", compact=True, **common) >> verify
        common = {"config": config, "map_index_template": TABLE_NAME, **task_settings(default)}
        dry_run = VacuumDryRunOperator.partial(task_id="vacuum_dry_run", **common).expand(table=names)
        question = PrepareQuestionOperator(task_id="anything_to_delete", results=dry_run.output, question="vacuum", owner=default.owner, retries=0)
        approved = approval(configured, "approve_deletion", "compactor: delete the files that no kept version needs?", "anything_to_delete")
        vacuum = VacuumOperator.partial(task_id="vacuum", pool=default.pool, **common)
        question >> approved >> vacuum.expand(table=question.output)
    return {dag.dag_id: dag}


def sync_schemas(configured: Settings, doc: str | None = None) -> dict[str, DAG]:
    """Return the DAG that reports new schemas before their rows land, and asks a person if a schema blocks a table."""
    config, default = str(configured.file), configured.defaults
    names = [name for name in configured.names if configured.spec(name).subject or configured.spec(name).avro_schema]
    with _dag(configured, "sync_schemas", doc, schedule=configured.airflow.schemas, max_active_runs=1, max_active_tasks=4, tags=[TAG]) as dag:
        if names:
            common = {"config": config, "map_index_template": TABLE_NAME, **task_settings(default)}
            notices = NotifySchemaChangesOperator.partial(task_id="notify_changes", **common).expand(table=names)
            blocked = PrepareQuestionOperator(task_id="any_table_blocked", results=notices.output, question="schemas", owner=default.owner, retries=0)
            repaired = approval(configured, "confirm_repair", "compactor: a new schema blocks tables", "any_table_blocked")
            run = RunOperator.partial(task_id="run", pool=default.pool, **common)
            blocked >> repaired >> run.expand(table=blocked.output)
    return {dag.dag_id: dag}


def approval(configured: Settings, name: str, subject: str, asked_by: str) -> BaseOperator:
    """Return the task that asks a person in Airflow's UI. The task `asked_by` has the text. Without an answer nothing follows."""
    if airflow_version.startswith("3.0."):
        return ApproveByMarkingOperator(task_id=name, subject=subject, asked_by=asked_by, owner=configured.defaults.owner, retries=0)
    from airflow.providers.standard.operators.hitl import ApprovalOperator

    body = f"{{{{ ti.xcom_pull(task_ids='{asked_by}', key='text') }}}}"
    within = timedelta(seconds=configured.airflow.answer_within)
    task: BaseOperator = ApprovalOperator(
        task_id=name, subject=subject, body=body, defaults="Reject", response_timeout=within, owner=configured.defaults.owner, retries=0
    )
    return task


def _form(names: list[str]) -> dict[str, Param]:
    """Return the fields of the backfill form."""
    hour: dict[str, Any] = {"type": ["null", "string"], "pattern": HOUR_PATTERN}
    return {
        "tables": Param([], type="array", items={"type": "string", "enum": names}, examples=names, description="Tables (default: all)."),
        "from_hour": Param(None, **hour, description="First hour that should have landed, for example 2026-11-20T14 (UTC)."),
        "to_hour": Param(None, **hour, description="Last hour that should have landed; needs `from_hour`. Default: the same hour."),
        "complete": Param(False, type="boolean", description="Stop before anything changes if an expected hour has not landed."),
        "reprocess": Param(False, type="boolean", description="Process the records and files in quarantine again."),
        "rebuild": Param(False, type="boolean", description="Build each table again from its archive with the current settings, then run it."),
        "accept_differences": Param(False, type="boolean", description="Publish a rebuilt table even if its rows differ; needs `rebuild`."),
        "dry_run": Param(True, type="boolean", description="Only show what would be done; change nothing."),
    }


def backfill(configured: Settings, doc: str | None = None) -> dict[str, DAG]:
    """Return the DAG that people start with a form: a dry run only plans, otherwise the chosen tables are planned and run."""
    names, default = list(configured.names), configured.defaults
    config = str(configured.file)
    with _dag(configured, "backfill", doc, schedule=None, params=_form(names), max_active_tasks=4, tags=[TAG]) as dag:
        chosen = ChooseTablesOperator(task_id="choose_tables", tables=names, owner=default.owner, retries=0)
        plan = PlanOperator.partial(task_id="plan", config=config, map_index_template=TABLE_NAME, **task_settings(default)).expand(
            table=chosen.output
        )
        gate = SkipIfDryRunOperator(task_id="skip_if_dry_run", tables=chosen.output, owner=default.owner, retries=0)
        common = {"config": config, "map_index_template": TABLE_NAME, "pool": default.pool, **task_settings(default)}
        timeout = timedelta(seconds=default.timeout)
        if_rebuild = SkipUnlessOperator(task_id="if_rebuild", param="rebuild", tables=gate.output, owner=default.owner, retries=0)
        rebuild = RebuildOperator.partial(task_id="rebuild", execution_timeout=timeout, **common).expand(table=if_rebuild.output)
        # rebuild first: a table whose key was changed is refused until then
        rule = "none_failed_min_one_success"
        run = RunOperator.partial(task_id="run", execution_timeout=timeout, trigger_rule=rule, **common).expand(table=gate.output)
        if_reprocess = SkipUnlessOperator(task_id="if_reprocess", param="reprocess", tables=gate.output, owner=default.owner, retries=0)
        replays = ReplayQuarantineOperator.partial(task_id="reprocess", execution_timeout=timeout, **common)
        plan >> gate >> if_rebuild >> rebuild >> run
        gate >> run
        gate >> if_reprocess >> replays.expand(table=if_reprocess.output)
    return {dag.dag_id: dag}


def quarantine_alert(configured: Settings, doc: str | None = None) -> dict[str, DAG]:
    """Return the DAG that fails while any file is in quarantine."""
    with _dag(configured, "quarantine_alert", doc, schedule=configured.airflow.quarantine, max_active_runs=1, tags=[TAG]) as dag:
        CheckQuarantineOperator(task_id="check_quarantine", config=str(configured.file), **task_settings(configured.defaults))
    return {dag.dag_id: dag}


def task_settings(table: Table) -> dict[str, Any]:
    """Return the task arguments that the table's settings determine."""
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
    """Return the settings of a group; defaults for a group that compactor.yaml does not configure."""
    return configured.airflow.groups.get(name, Group())


def _schedule(group: Group) -> Any:
    if not group.partitioned:
        return group.schedule
    from airflow.sdk import CronPartitionTimetable  # Airflow 3.2 on

    # the configuration allows this for hourly schedules only, so the interval before a run is the hour before it
    return CronPartitionTimetable(group.schedule, timezone="UTC", run_offset=-1, key_format=KEY_FORMAT)


def _dag(configured: Settings, name: str, doc: str | None, *, schedule: Any, **more: Any) -> DAG:
    page = configured.airflow.status_page
    doc = f"{doc or ''}\n\n[Status of the tables]({page})" if page else doc
    return DAG(configured.airflow.prefix + name, schedule=schedule, start_date=START, catchup=False, doc_md=doc, **more)
