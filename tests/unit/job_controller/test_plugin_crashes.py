"""A plugin of somebody else whose code fails ends no Job: the Job waits, tells why, and goes on when the plugin is mended."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from importlib import metadata

import pytest

from pyroclast.api.jobplugins import ENTRY_POINTS
from pyroclast.api.records import Job, Task
from pyroclast.api.types import CONFIG_MAPS, POD_GROUPS, PODS, SERVICES
from pyroclast.kube.events.recorder import EventRecorder
from pyroclast.lifecycle.jobplugins import JobPlugin, Manifest, PluginError
from pyroclast_job_controller.plugins import registry

from .memory_cluster import MemoryCluster, in_virtual_time

HOUR = 3600.0


class Fragile(JobPlugin):
    """`fails` says how."""

    name = "fragile"
    fails: Exception | None = None
    finds: tuple[str, ...] = ()

    def problems(self, job: Job) -> list[str]:
        """Those that it is to find."""
        return list(self.finds)

    def pod(self, job: Job, task: Task, index: int, manifest: Manifest) -> Manifest:
        """Fail, or do nothing."""
        if self.fails is not None:
            raise self.fails
        return manifest


@pytest.fixture(autouse=True)
def said(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    points = [metadata.EntryPoint("fragile", f"{__name__}:Fragile", ENTRY_POINTS)]
    monkeypatch.setattr(registry.metadata, "entry_points", lambda group: points if group == ENTRY_POINTS else [])
    registry.known.cache_clear()
    events: list[str] = []

    def event(_: object, __: object, type_: str, reason: str, message: str, **___: object) -> None:
        events.append(f"{type_} {reason}: {message}")

    monkeypatch.setattr(EventRecorder, "event", event)
    yield events
    registry.known.cache_clear()


def live(fails: Exception) -> tuple[str, str]:
    """The phase of the Job after an hour with a plugin that fails, and after it was mended."""

    async def scenario(cluster: MemoryCluster) -> tuple[str, str]:
        Fragile.fails = fails
        cluster.job("j", plugins={"fragile": []})
        await cluster.until(lambda: cluster.phase("j") == "Pending" and (cluster.admit() or True))
        cluster.admit()
        await asyncio.sleep(HOUR)
        before = cluster.phase("j")
        Fragile.fails = None
        await asyncio.sleep(600)
        cluster.run_pods()
        await asyncio.sleep(10)
        return before, cluster.phase("j")

    return in_virtual_time(scenario)


def test_a_job_waits_for_a_plugin_that_crashes(said: list[str]) -> None:
    assert live(KeyError("nothing")) == ("Pending", "Running")
    assert said.count("Warning PluginError: plugin fragile failed: KeyError: 'nothing'") == 1


def test_a_job_that_a_plugin_refuses_ends(said: list[str]) -> None:
    assert live(PluginError("this Job has no head")) == ("Terminated", "Terminated")
    assert "Warning PluginError: this Job has no head" in said


def test_nothing_is_made_for_a_job_with_problems_and_all_of_them_are_told(
    said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Fragile, "finds", ("task head is missing", "task head needs a port"))

    async def scenario(cluster: MemoryCluster) -> tuple[str, int]:
        cluster.job("j", plugins={"fragile": [], "svc": []})
        await asyncio.sleep(HOUR)
        return cluster.phase("j"), sum(map(len, (cluster.server.of(kind) for kind in (POD_GROUPS, PODS, SERVICES, CONFIG_MAPS))))

    assert in_virtual_time(scenario) == ("Terminated", 0)
    text = "Warning PluginError: Execute plugin when job add failed, err: task head is missing; task head needs a port"
    assert said.count(text) == 1
