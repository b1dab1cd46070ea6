"""Airflow operators that run a Job or a flow. While it runs, Airflow's triggerer waits for it, so no worker is occupied.

Each try of a task has its own object name, which is always the same. A worker that restarts during a try therefore finds the Job
of the try.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any, ClassVar, Final

from airflow.sdk import BaseOperator

from pyroclast_client import errors
from pyroclast_client.documents import Submittable, stable_name
from pyroclast_client.flow_handles import AsyncFlow, Flow
from pyroclast_client.functions import Task, task
from pyroclast_client.integrations.airflow_trigger import HANDLES, EndTrigger
from pyroclast_client.jobs import Job
from pyroclast_client.synchronous import Client

if TYPE_CHECKING:
    from pyroclast_client.flow_compilation import FlowCall
    from pyroclast_client.flows import FlowFunction


LOG_LINES: Final = 1000


class _Operator(BaseOperator):  # type: ignore[misc]  # see above
    """The common part of both operators: submits, defers, and reads the result.

    Args:
        namespace, job_queue, image, store, cluster_context, kubeconfig: as for `Client`.
        deferrable: whether the triggerer waits for the end instead of the worker.
        kwargs: the arguments of every operator.
    """

    kind: ClassVar[str]

    def __init__(
        self,
        *,
        namespace: str | None = None,
        job_queue: str | None = None,
        image: str | None = None,
        store: str | None = None,
        cluster_context: str | None = None,
        kubeconfig: str | None = None,
        deferrable: bool = True,
        **kwargs: Any,  # noqa: ANN401 - of Airflow
    ) -> None:
        super().__init__(**kwargs)
        self.namespace, self.job_queue, self.image, self.store = namespace, job_queue, image, store
        self.cluster_context, self.kubeconfig, self.deferrable = cluster_context, kubeconfig, deferrable
        self._handle: Job[Any] | Flow[Any] | None = None

    def execute(self, context: Mapping[str, Any]) -> Any:  # noqa: ANN401 - what the function returns
        """Submit the Job or flow, and wait until it ends."""
        instance = context["ti"]
        which = (instance.dag_id, instance.task_id, instance.run_id, instance.map_index, instance.try_number)
        name = stable_name(f"{instance.dag_id}-{instance.task_id}", sha256(repr(which).encode()).hexdigest())
        made = self._client().submit(self._submittable(), name=name)
        self._handle = made
        if self.deferrable:
            key = made.handle.namespace, made.name, made.handle.uid
            self.defer(trigger=EndTrigger(self.kind, *key, self._cluster()), method_name="execute_complete")
        return self._outcome(made)

    def execute_complete(self, context: Mapping[str, Any], event: dict[str, str]) -> Any:  # noqa: ANN401 - see above
        """Return the result of the Job or flow, after the trigger reported its end."""
        del context
        if event["lost"]:
            raise errors.JobFailed(event["lost"], phase="Deleted")
        handle = HANDLES[self.kind](self._client().asynchronous, event["namespace"], event["name"], event["uid"])
        return self._outcome(Flow(handle) if isinstance(handle, AsyncFlow) else Job(handle))

    def on_kill(self) -> None:
        """Terminate the Job. While the triggerer waits, the trigger terminates it."""
        if self._handle is not None:
            self._handle.cancel()

    def _submittable(self) -> Any:  # noqa: ANN401 - whatever `submit` takes
        raise NotImplementedError

    def _outcome(self, handle: Any) -> Any:  # noqa: ANN401 - see above
        return handle.result()

    def _cluster(self) -> dict[str, str | None]:
        return {"context": self.cluster_context, "namespace": self.namespace, "kubeconfig": self.kubeconfig}

    def _client(self) -> Client:
        return Client(queue=self.job_queue, image=self.image, store=self.store, **self._cluster())


class PyroclastJobOperator(_Operator):
    """Runs a manifest or a function as a Job. The XCom is the function's result, or the name of the Job.

    Args:
        job: a manifest as a dict, or the path of a YAML file beside the DAG. Both may have Jinja templates.
        python_callable: a function in place of `job`. `@pc.task` gives it options.
        op_args, op_kwargs: the arguments of the function, which may have Jinja templates.
        kwargs: the arguments of both operators: `namespace`, `job_queue`, `image`, `store`, `cluster_context`, `kubeconfig`,
            `deferrable`.
    """

    kind = "Job"
    template_fields: Sequence[str] = ("job", "op_args", "op_kwargs", "namespace", "job_queue")
    template_ext: Sequence[str] = (".yaml", ".yml")

    def __init__(
        self,
        *,
        job: Submittable | None = None,
        python_callable: Callable[..., Any] | None = None,
        op_args: Sequence[Any] = (),
        op_kwargs: Mapping[str, Any] | None = None,
        **kwargs: Any,  # noqa: ANN401 - of Airflow
    ) -> None:
        super().__init__(**kwargs)
        if (job is None) == (python_callable is None):
            raise ValueError(f"{self.task_id}: give job= for a manifest, or python_callable= for a function")
        self.job, self.python_callable = job, python_callable
        self.op_args, self.op_kwargs = op_args, op_kwargs or {}

    def _submittable(self) -> Any:  # noqa: ANN401 - see above
        if self.python_callable is None:
            return self.job
        function = self.python_callable if isinstance(self.python_callable, Task) else task(self.python_callable)
        return function.call(*self.op_args, **self.op_kwargs)

    def _outcome(self, handle: Job[Any]) -> Any:  # noqa: ANN401 - see above
        """Log the end of the output. Then return the result or raise the error of the Job."""
        handle.wait(check=False, progress=False)
        for line in handle.logs(tail=LOG_LINES).splitlines():
            self.log.info("%s", line)
        return handle.wait(progress=False).name if self.python_callable is None else handle.result()


class PyroclastFlowOperator(_Operator):
    """Runs a flow of `@pc.flow`. The XCom is the result of the flow.

    Args:
        flow: the flow.
        op_args, op_kwargs: the arguments of the flow, which may have Jinja templates.
        kwargs: the arguments of both operators: `namespace`, `job_queue`, `image`, `store`, `cluster_context`, `kubeconfig`,
            `deferrable`.
    """

    kind = "JobFlow"
    template_fields: Sequence[str] = ("op_args", "op_kwargs", "namespace", "job_queue")

    def __init__(
        self,
        *,
        flow: FlowFunction[..., Any],
        op_args: Sequence[Any] = (),
        op_kwargs: Mapping[str, Any] | None = None,
        **kwargs: Any,  # noqa: ANN401 - of Airflow
    ) -> None:
        super().__init__(**kwargs)
        self.flow, self.op_args, self.op_kwargs = flow, op_args, op_kwargs or {}

    def _submittable(self) -> FlowCall[Any]:
        return self.flow.call(*self.op_args, **self.op_kwargs)
