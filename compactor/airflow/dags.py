"""Build the DAGs from compactor.yaml. Airflow parses DAG files often, so this module reads only the configuration."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from airflow import __version__ as airflow_version
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, Asset, AssetAlias, BaseOperator, Param, TaskGroup

from compactor.airflow import alerts, connection
from compactor.airflow.group import FindWorkOperator, GroupOperator, RunGroupOperator, TableOperator, VerifyGroupOperator, WaitForHourOperator
from compactor.airflow.hours import HOUR_PATTERN
from compactor.airflow.operators import (
    ApproveByMarkingOperator,
    CheckLandingOperator,
    CheckQuarantineOperator,
    ChooseTablesOperator,
    NotifySchemaChangesOperator,
    PlanOperator,
    PrepareQuestionOperator,
    RebuildOperator,
    ReplayQuarantineOperator,
    RunOperator,
    SkipUnlessOperator,
    VacuumDryRunOperator,
    VacuumOperator,
)
from compactor.config.keys import Group
from compactor.config.settings import Settings, load
from compactor.config.values import absolute, is_s3
from compactor.core.settings.command_line import COMPACT, PARALLEL, RUN

START = datetime(2020, 1, 1, tzinfo=timezone.utc)
"""A date before every run. DAGs do not catch up."""

CONFIG = "COMPACTOR_CONFIG"
TAG = "compactor"
BACKOFF: Any = True if BaseOperator.retry_exponential_backoff is False else 2
"""Double the delay with each retry. Airflow 3.0 expects a flag, later versions the factor."""

ACTIVE_RUNS = 2
"""Runs of a group's DAG, or of `sync_schemas`, at a time. While one waits for a slow or retrying table, or a person, the next one goes on."""

MAINTENANCE_SECONDS_MAX = 12 * 3600.0
"""Longest time limit of a group's compaction or verification, unless a table's `timeout` is longer."""

SCHEMAS, QUARANTINE = "*/15 * * * *", "45 6 * * *"
"""When the DAGs `sync_schemas` and `quarantine_alert` run. Who does not want one pauses it."""

ANSWER_WITHIN = timedelta(hours=20)
"""How long a question to a person stays open. After that the answer is no."""

TABLE_NAME = "{{ task.table }}"


def settings(dag_file: str) -> Settings:
    """Read the configuration: COMPACTOR_CONFIG, otherwise compactor.yaml beside the DAG file. Airflow shows a ConfigError as an import error."""
    configured = load(path := os.environ.get(CONFIG) or Path(dag_file).parent / "compactor.yaml")
    if not is_s3(configured.discovered_dir):
        return configured
    from compactor.app.base import read_settings

    return read_settings(path, connection.use)[0]


def asset(configured: Settings, name: str) -> Asset:
    """Return the asset of a table's view: `<prefix><database>.<view>`, with the table's location as URI. Airflow takes one URI for a name."""
    spec = configured.spec(name)
    return Asset(name=f"{configured.airflow.prefix}{spec.database}.{spec.view}", uri=spec.root if is_s3(spec.root) else Path(spec.root).as_uri())


def compact(configured: Settings, doc: str | None = None) -> dict[str, DAG]:
    """Return a DAG `compact_<group>` for each group that has tables: the group's tasks, and one task for each table."""
    # the first table of `discover:` needs a `find_work` that adds it
    groups = groups_of(configured) or {configured.defaults.group: []}
    return {dag.dag_id: dag for dag in (_compact_group(configured, group, names, doc) for group, names in groups.items())}


def _compact_group(configured: Settings, group: str, names: list[str], doc: str | None) -> DAG:
    config, options = str(configured.file), _group(configured, group)
    late = alerts.deadlines(config, {name: configured.tables[name].deadline for name in names})
    # no `dagrun_timeout`: it would skip the tasks of tables that have failed so far, and nobody would be alerted
    limits = {"max_active_runs": ACTIVE_RUNS, **late}
    jobs, assets = jobs_of(configured, names), {name: asset(configured, name) for name in names}
    with _dag(configured, f"compact_{group}", doc, schedule=options.schedule, **limits, tags=[TAG, group]) as dag:
        shared = {"config": config, **task_settings(configured, names)}
        # the alias belongs to this DAG alone
        alias = AssetAlias(f"{configured.airflow.prefix}compact_{group}: tables without work")
        work = FindWorkOperator(task_id="find_work", jobs=jobs, assets=assets, alias=alias, **shared)
        if options.wait:
            WaitForHourOperator(task_id="wait", tables=names, wait=options.wait, **shared) >> work
        with TaskGroup("tables"):
            shown = {name: _table(configured, name, job, assets[name]) for job, tables in jobs.items() for name in tables}
        for job, tables in jobs.items():
            settings, first = {"config": config, **task_settings(configured, tables)}, configured.tables[tables[0]]
            timeout = timedelta(seconds=first.timeout)
            run = RunGroupOperator(
                task_id=job, group=group, members=tables, at_once=options.at_once, pool=first.pool, execution_timeout=timeout, **settings
            )
            work >> run >> [shown[name] for name in tables]
    return dag


def _table(configured: Settings, name: str, job: str, shown: Asset) -> BaseOperator:
    """Return the task of a table, within the task group `tables`."""
    table = configured.tables[name]
    common = {"config": str(configured.file), "execution_timeout": timedelta(seconds=table.timeout), **task_settings(configured, [name])}
    return TableOperator(task_id=name, table=name, job=job, asset=shown, pool=table.pool, **common)


def groups_of(configured: Settings) -> dict[str, list[str]]:
    """Return group → its tables, without groups that have none."""
    members: dict[str, list[str]] = {}
    for name, table in configured.tables.items():
        members.setdefault(table.group, []).append(name)
    return members


def jobs_of(configured: Settings, names: list[str]) -> dict[str, list[str]]:
    """Return task id → tables that one job runs. Tables whose machines, pool or time limit differ from those of most tables get jobs of their own."""
    alike: dict[Any, list[str]] = {}
    for name in names:
        table = configured.tables[name]
        alike.setdefault((table.runner, tuple(sorted(table.spark.items())), table.pool, table.timeout), []).append(name)
    most_first = sorted(alike.values(), key=len, reverse=True)
    return {f"run_{tables[0]}" if at else "run": tables for at, tables in enumerate(most_first)}


def maintenance(configured: Settings, doc: str | None = None) -> dict[str, DAG]:
    """Return the DAG that compacts and verifies every table in full, and vacuums: after a person's approval, or with `vacuum: auto` at once."""
    config, names, default = str(configured.file), list(configured.names), configured.defaults
    with _dag(configured, "maintenance", doc, schedule=configured.airflow.maintenance, max_active_runs=1, tags=[TAG]) as dag:
        verified = [
            _maintain(configured, group, tables, f"_{group}" if job == "run" else f".{tables[0]}")
            for group, members in groups_of(configured).items()
            for job, tables in jobs_of(configured, members).items()
        ]
        common = {"config": config, "map_index_template": TABLE_NAME, **task_settings(configured)}
        dry_run = VacuumDryRunOperator.partial(task_id="vacuum_dry_run", **common).expand(table=names)
        auto = configured.airflow.vacuum == "auto"
        # a table that failed keeps its files, and holds back no other table
        gate: dict[str, Any] = {"verified_by": [task.task_id for task in verified], "trigger_rule": "all_done", "retries": 0}
        deletable = PrepareQuestionOperator(
            task_id="anything_to_delete", results=dry_run.output, question="vacuum_auto" if auto else "vacuum", **gate
        )
        vacuum = VacuumOperator.partial(task_id="vacuum", pool=default.pool, **common).expand(table=deletable.output)
        verified >> deletable
        if not auto:
            approved = approval(configured, "approve_deletion", "compactor: delete the files that no kept version needs?", deletable.task_id)
            deletable >> approved >> vacuum
        # the state of a run is that of its last tasks, so these must not all have another one behind them
        all_succeeded = EmptyOperator(task_id="all_succeeded")
        [*verified, *(task for each in verified for task in each.upstream_list), dry_run] >> all_succeeded
    return {dag.dag_id: dag}


def _maintain(configured: Settings, group: str, tables: list[str], name: str) -> BaseOperator:
    """Add the tasks that compact and verify these tables of a group, in one job each. Return the one that verifies. `name`: end of their ids."""
    first, options = configured.tables[tables[0]], _group(configured, group)
    # the tables come one after another, `at_once` at a time
    seconds = max(first.timeout, min(MAINTENANCE_SECONDS_MAX, first.timeout * math.ceil(len(tables) / options.at_once)))
    common: dict[str, Any] = {"config": str(configured.file), "group": group, "members": tables, "pool": first.pool, "seconds": seconds}
    common |= {"execution_timeout": timedelta(seconds=seconds), **task_settings(configured, tables)}
    verify = VerifyGroupOperator(task_id=f"verify{name}", **common)
    # a group without schedule is only run by people
    if options.schedule is not None:
        words = (*RUN.words, *COMPACT.names, PARALLEL.names[0], str(options.at_once))
        GroupOperator(task_id=f"compact{name}", words=words, labelled=True, **common) >> verify
    return verify


def sync_schemas(configured: Settings, doc: str | None = None) -> dict[str, DAG]:
    """Return the DAG that reports new schemas before their rows land, and asks a person if a schema blocks a table.

    There is none if no table declares a schema.
    """
    config, default = str(configured.file), configured.defaults
    names = [name for name in configured.names if configured.spec(name).subject or configured.spec(name).avro_schema]
    if not names:
        return {}
    with _dag(configured, "sync_schemas", doc, schedule=SCHEMAS, max_active_runs=ACTIVE_RUNS, max_active_tasks=4, tags=[TAG]) as dag:
        common = {"config": config, "map_index_template": TABLE_NAME, **task_settings(configured)}
        notices = NotifySchemaChangesOperator.partial(task_id="notify_changes", **common).expand(table=names)
        # runs go on looking while a question is open; a table that cannot be looked at fails the run, and holds back no other table
        gate: dict[str, Any] = {"one_at_a_time": True, "trigger_rule": "all_done", "retries": 0}
        blocked = PrepareQuestionOperator(task_id="any_table_blocked", results=notices.output, question="schemas", **gate)
        notices >> EmptyOperator(task_id="all_succeeded")
        repaired = approval(configured, "confirm_repair", "compactor: a new schema blocks tables", "any_table_blocked")
        run = RunOperator.partial(task_id="run", pool=default.pool, **common)
        blocked >> repaired >> run.expand(table=blocked.output)
    return {dag.dag_id: dag}


def approval(configured: Settings, name: str, subject: str, asked_by: str) -> BaseOperator:
    """Return the task that asks a person in Airflow's UI. The task `asked_by` has the text. Without an answer nothing follows."""
    if airflow_version.startswith("3.0."):
        return ApproveByMarkingOperator(task_id=name, subject=subject, asked_by=asked_by, retries=0)
    from airflow.providers.standard.operators.hitl import ApprovalOperator

    body = f"{{{{ ti.xcom_pull(task_ids='{asked_by}', key='text') }}}}"
    task: BaseOperator = ApprovalOperator(task_id=name, subject=subject, body=body, defaults="Reject", response_timeout=ANSWER_WITHIN, retries=0)
    return task


def _form(names: list[str]) -> dict[str, Param]:
    hour: dict[str, Any] = {"type": ["null", "string"], "pattern": HOUR_PATTERN}
    texts = {
        "tables": "Tables to bring up to date. Empty: all.",
        "from_hour": "First hour whose files you expect in landing, for example 2026-11-20T14 (UTC). Empty: no particular hours.",
        "to_hour": "Last hour whose files you expect. Empty: only the hour `from_hour`.",
        "complete": "Stop before anything changes if an expected hour has not landed.",
        "reprocess": "After the run, ingest again what is in quarantine. Repair its cause first.",
        "rebuild": "First build each table again from its archived files, with the current settings.",
        "accept_differences": "With `rebuild`: publish the rebuilt table even if its rows differ from the current ones.",
        "dry_run": "Change nothing. The log of the task `plan` shows what a run would do.",
    }
    form = {
        "tables": Param([], type="array", items={"type": "string", "enum": names}, examples=names, description=texts["tables"]),
        **{name: Param(None, **hour, description=texts[name]) for name in ("from_hour", "to_hour")},
    }
    switches = {name: Param(name == "dry_run", type="boolean", description=text) for name, text in texts.items() if name not in form}
    return {**form, **switches}


def backfill(configured: Settings, doc: str | None = None) -> dict[str, DAG]:
    """Return the DAG that people start with a form: a dry run only plans, otherwise the chosen tables are planned and run."""
    names, default = list(configured.names), configured.defaults
    config, form = str(configured.file), _form(names)
    with _dag(configured, "backfill", doc, schedule=None, params=form, max_active_tasks=4, tags=[TAG]) as dag:
        chosen = ChooseTablesOperator(task_id="choose_tables", tables=names, form=list(form), retries=0)
        plan = PlanOperator.partial(task_id="plan", config=config, map_index_template=TABLE_NAME, **task_settings(configured)).expand(
            table=chosen.output
        )
        gate = SkipUnlessOperator(task_id="skip_if_dry_run", param="dry_run", value=False, tables=chosen.output, retries=0)
        common = {"config": config, "map_index_template": TABLE_NAME, "pool": default.pool, **task_settings(configured)}
        timeout = timedelta(seconds=max((table.timeout for table in configured.tables.values()), default=default.timeout))
        if_rebuild = SkipUnlessOperator(task_id="if_rebuild", param="rebuild", tables=gate.output, retries=0)
        rebuild = RebuildOperator.partial(task_id="rebuild", execution_timeout=timeout, **common).expand(table=if_rebuild.output)
        # rebuild first: a table whose key was changed is refused until then
        rule = "none_failed_min_one_success"
        run = RunOperator.partial(task_id="run", execution_timeout=timeout, trigger_rule=rule, **common).expand(table=gate.output)
        # after the run, also if some table failed: what waits in quarantine must not hold back new files
        if_reprocess = SkipUnlessOperator(task_id="if_reprocess", param="reprocess", tables=gate.output, retries=0, trigger_rule="all_done")
        replays = ReplayQuarantineOperator.partial(task_id="reprocess", execution_timeout=timeout, **common)
        plan >> gate >> if_rebuild >> rebuild >> run
        gate >> run >> if_reprocess >> replays.expand(table=if_reprocess.output)
        # without it the state of the run were that of `reprocess`, which is mostly skipped
        [plan, rebuild, run] >> EmptyOperator(task_id="all_succeeded", trigger_rule="none_failed")
    return {dag.dag_id: dag}


def quarantine_alert(configured: Settings, doc: str | None = None) -> dict[str, DAG]:
    """Return the DAG that fails while a file is in quarantine, a table is silent, or no table takes landed files."""
    with _dag(configured, "quarantine_alert", doc, schedule=QUARANTINE, max_active_runs=1, tags=[TAG]) as dag:
        CheckQuarantineOperator(task_id="check_quarantine", config=str(configured.file), **task_settings(configured))
        CheckLandingOperator(task_id="check_landing", config=str(configured.file), **task_settings(configured))
    return {dag.dag_id: dag}


def task_settings(configured: Settings, names: Sequence[str] = ()) -> dict[str, Any]:
    """Return the task arguments that the settings of some tables determine, mostly of the first; without tables those of `defaults`."""
    tables = [configured.tables[name] for name in names] or [configured.defaults]
    table, group = tables[0], _group(configured, tables[0].group)
    template = {name: absolute(path, str(configured.file.parent)) for name, path in group.executor_config.items() if name == "pod_template_file"}
    executor = {**group.executor_config, **template}
    return {
        "retries": table.retries,
        "retry_exponential_backoff": BACKOFF,
        "max_retry_delay": timedelta(minutes=30),
        "on_failure_callback": alerts.failed,
        **({"queue": group.queue} if group.queue else {}),
        **({"executor_config": executor} if executor else {}),
    }


def _group(configured: Settings, name: str) -> Group:
    """Return the settings of a group; defaults for a group that compactor.yaml does not configure."""
    return configured.airflow.groups.get(name, Group())


def _dag(configured: Settings, name: str, doc: str | None, *, schedule: Any, **more: Any) -> DAG:
    defaults = {"owner": TAG}
    return DAG(configured.airflow.prefix + name, schedule=schedule, start_date=START, catchup=False, doc_md=doc, default_args=defaults, **more)
