"""The trigger with which Airflow's triggerer waits for the end of a Job or JobFlow."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Final

from airflow.triggers.base import BaseTrigger, TriggerEvent

from pyroclast_client import errors
from pyroclast_client.asynchronous import AsyncClient
from pyroclast_client.flow_handles import AsyncFlow
from pyroclast_client.handles import AsyncJob

HANDLES: Final = {"Job": AsyncJob, "JobFlow": AsyncFlow}


class EndTrigger(BaseTrigger):  # type: ignore[misc]  # Airflow is not installed where types are checked
    """Fires when a Job or JobFlow has ended or was deleted. When a user clears or marks the task, the trigger ends the Job."""

    def __init__(self, kind: str, namespace: str, name: str, uid: str, cluster: dict[str, Any]) -> None:
        super().__init__()
        self.what, self.cluster = (kind, namespace, name, uid), cluster

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class path and arguments with which another process creates this trigger."""
        given = dict(zip(("kind", "namespace", "name", "uid"), self.what, strict=True))
        return f"{EndTrigger.__module__}.{EndTrigger.__name__}", {**given, "cluster": self.cluster}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Wait until the Job or flow ends. The operator reports its failure."""
        kind, *key = self.what
        async with AsyncClient(**self.cluster) as client:
            lost = ""
            try:
                await HANDLES[kind](client, *key).wait(check=False)
            except (errors.JobFailed, errors.JobReplaced, errors.NotFound) as error:
                lost = str(error)
        yield TriggerEvent({"namespace": key[0], "name": key[1], "uid": key[2], "lost": lost})

    async def on_kill(self) -> None:
        """Terminate the Job or flow."""
        kind, *key = self.what
        async with AsyncClient(**self.cluster) as client:
            await HANDLES[kind](client, *key).cancel()
