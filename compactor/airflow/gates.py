"""Operators that decide what follows: the choices of the backfill form, and questions to a person."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow.sdk import BaseOperator

from compactor.airflow.compat import AirflowFailException, AirflowSkipException, earlier_run
from compactor.airflow.hours import expected_hours
from compactor.airflow.outcome import QUESTIONS


class ChooseTablesOperator(BaseOperator):
    """Return the tables in the form, or all of `tables` if it names none. Fails if the form's values do not fit together."""

    def __init__(self, *, tables: list[str], **more: Any) -> None:
        super().__init__(**more)
        self.tables = tables

    def execute(self, context: Any) -> list[str]:
        params = context["params"]
        try:
            expected_hours(params)
        except ValueError as error:
            raise AirflowFailException(str(error)) from error
        if params["accept_differences"] and not params["rebuild"]:
            raise AirflowFailException("`accept_differences` needs `rebuild`, which is off")
        return list(dict.fromkeys(params["tables"])) or self.tables


class SkipUnlessOperator(BaseOperator):
    """Pass the tables on, or skip the following tasks unless the form's switch `param` has this value."""

    template_fields = ("tables",)

    def __init__(self, *, tables: Any, param: str, value: bool = True, **more: Any) -> None:
        super().__init__(**more)
        self.tables, self.param, self.value = tables, param, value

    def execute(self, context: Any) -> list[str]:
        if context["params"][self.param] is not self.value:
            now, then = ("off", "on") if self.value else ("on", "off")
            raise AirflowSkipException(f"nothing to do, because `{self.param}` is {now}. To go on, start again with `{self.param}` {then}.")
        if not self.tables:
            raise AirflowSkipException("no table was run")
        return list(self.tables)


class PrepareQuestionOperator(BaseOperator):
    """Make a question to a person from the results of earlier tasks. Skip the following tasks if there is nothing to ask.

    `verified_by`: ids of the tasks that verify tables; a table that none of them passed is left out. `one_at_a_time`: ask nothing while an earlier
    run may wait for an answer. Returns the tables that the question is about. The text of the question is the XCom `text`.
    """

    template_fields = ("results",)

    def __init__(self, *, results: Any, question: str, verified_by: Sequence[str] | None = None, one_at_a_time: bool = False, **more: Any) -> None:
        super().__init__(**more)
        self.results, self.question, self.one_at_a_time = results, question, one_at_a_time
        self.verified_by = None if verified_by is None else list(verified_by)

    def execute(self, context: Any) -> list[str]:
        results, ti = list(self.results), context["ti"]
        if self.verified_by is not None:
            passed = {name for task in self.verified_by for name in ti.xcom_pull(task_ids=task, key="passed") or ()}
            left_out = [result["table"] for result in results if result["table"] not in passed]
            results = [result for result in results if result["table"] in passed]
            if left_out:
                self.log.warning("left out, because their verification did not pass: %s", ", ".join(left_out))
        tables, text = QUESTIONS[self.question](results)
        if not tables:
            raise AirflowSkipException("nothing to do")
        if self.one_at_a_time and (earlier := earlier_run(ti)) is not None:
            raise AirflowSkipException(f"the run {earlier.run_id} still waits for an answer")
        self.log.info("%s", text)
        ti.xcom_push(key="text", value=text)
        return tables


class ApproveByMarkingOperator(BaseOperator):
    """Ask a person where Airflow has no approval form (3.0): the task fails with the question, and a person approves by marking it as success."""

    def __init__(self, *, subject: str, asked_by: str, **more: Any) -> None:
        super().__init__(**more)
        self.subject, self.asked_by = subject, asked_by

    def execute(self, context: Any) -> None:
        text = context["ti"].xcom_pull(task_ids=self.asked_by, key="text")
        raise AirflowFailException(f"{self.subject}\n{text}\nTo approve, mark this task as success. Otherwise do nothing.")
