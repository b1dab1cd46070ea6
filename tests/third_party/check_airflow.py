"""The real Airflow: a DAG runs from its file to its end, and a trigger is awaited as the triggerer does."""

from __future__ import annotations

import os
import runpy
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

os.environ["AIRFLOW__CORE__LOAD_EXAMPLES"] = "False"

from airflow.sdk.exceptions import TaskDeferred
from airflow.sdk.module_loading import import_string
from airflow.utils.db import initdb

import pyroclast.client as pc
from pyroclast_client.integrations.airflow import EndTrigger, PyroclastFlowOperator, PyroclastJobOperator
from pyroclast_client.loops import run

pytestmark = pytest.mark.filterwarnings("ignore")  # Airflow's own
Wait = Callable[[Callable[[], object]], None]

DAGS = Path.home() / "airflow" / "dags"


@pytest.fixture(autouse=True)
def image(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYROCLAST_IMAGE", "local")


def context(task: str) -> dict[str, Any]:
    return {"ti": SimpleNamespace(dag_id="nightly", task_id=task, run_id="once", map_index=-1, try_number=1)}


def deferred(operator: Any) -> EndTrigger:
    """The trigger that the task leaves behind, as another process makes it again."""
    with pytest.raises(TaskDeferred) as caught:
        operator.execute(context(operator.task_id))
    path, given = caught.value.trigger.serialize()
    return import_string(path)(**given)


async def fired(trigger: EndTrigger) -> dict[str, str]:
    return (await anext(trigger.run())).payload


def test_the_dag_of_the_guide_runs(example: Callable[[str], str]) -> None:
    initdb()
    DAGS.mkdir(parents=True)
    (DAGS / "nightly.py").write_text(example("Airflow"))
    ended = runpy.run_path(str(DAGS / "nightly.py"))["dag"].test()
    assert {each.task_id: str(each.state) for each in ended.get_task_instances()} == {"trained": "success", "report": "success"}


def test_what_a_function_raises_fails_the_task(client: pc.Client) -> None:
    operator = PyroclastJobOperator(task_id="bad", python_callable=divmod, op_args=[1, 0], namespace=client.namespace)
    event = run(fired(deferred(operator)))
    with pytest.raises(pc.errors.TaskError, match="ZeroDivisionError"):
        operator.execute_complete({}, event)


def test_a_task_that_is_cleared_ends_its_job_and_one_that_is_repeated_finds_it(client: pc.Client, wait_until: Wait) -> None:
    container = {"name": "main", "image": "any", "command": ["sleep", "600"]}
    template = {"spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [container]}}
    job = {"spec": {"tasks": [{"name": "main", "replicas": 1, "template": template}]}}
    operator = PyroclastJobOperator(task_id="sleep", job=job, namespace=client.namespace)
    first, second = deferred(operator), deferred(operator)
    assert first.what == second.what
    handle = client.job(first.what[2]).wait(60, "running")
    run(first.on_kill())
    event = run(fired(first))
    with pytest.raises(pc.errors.JobFailed, match="Terminated"):
        operator.execute_complete({}, event)
    handle.delete()
    wait_until(lambda: handle.name not in [each.name for each in client.jobs()])
    with pytest.raises(pc.errors.JobFailed, match="Submit it again"):
        operator.execute_complete({}, run(fired(first)))


def test_a_flow_runs(client: pc.Client, tmp_path: Path) -> None:
    @pc.task
    def double(number: int) -> int:
        return 2 * number

    @pc.flow(store=f"file://{tmp_path}")
    def twice(number: int) -> int:
        return double(double(number))

    operator = PyroclastFlowOperator(task_id="twice", flow=twice, op_args=[3], namespace=client.namespace)
    assert operator.execute_complete({}, run(fired(deferred(operator)))) == 12
