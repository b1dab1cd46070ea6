"""Deadlines are counted by the clock that stamped the objects: the API server's."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

from pyroclast.api.types import JOB_FLOWS
from pyroclast.kube.events.recorder import EventRecorder
from pyroclast.runtime.service import Service
from pyroclast_jobflow_controller.app import make_shared
from pyroclast_jobflow_controller.settings import JobFlowSettings
from tests.unit.kube.fault_server import FaultServer, answer


async def test_jobflow_controller_uses_the_time_of_the_api_server() -> None:
    ahead = datetime.now(UTC) + timedelta(minutes=10)
    async with FaultServer() as server, server.client() as client:
        server.on(f"GET {JOB_FLOWS.path('')}", answer(200, {"items": []}, Date=format_datetime(ahead, usegmt=True)))
        settings = JobFlowSettings()
        shared = make_shared(Service("flows", settings), client, EventRecorder(client, "flows"), settings)
        await client.list(JOB_FLOWS)
        assert shared.now() - datetime.now(UTC).timestamp() > 590
