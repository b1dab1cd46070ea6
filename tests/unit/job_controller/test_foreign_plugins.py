"""Plugins of somebody else: one whose code fails ends no Job, one may refuse a Job, and one keeps objects when the Job ends."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from importlib import metadata
from typing import ClassVar

import pytest

from pyroclast.api.jobplugins import ENTRY_POINTS
from pyroclast.api.records import Job, Task
from pyroclast.api.types import CONFIG_MAPS, POD_GROUPS, PODS, SERVICES
from pyroclast.kube.events.recorder import EventRecorder
from pyroclast.lifecycle.jobplugins import JobPlugin, Manifest, PluginError, PluginObject
from pyroclast_job_controller.plugins import registry

from .memory_cluster import MemoryCluster, in_virtual_time

HOUR = 3600.0


class Fragile(JobPlugin):
    """`fails` says how."""

    name = "fragile"
    fails: Exception | None = None
    finds: tuple[str, ...] = ()
    kept: ClassVar[list[str]] = []

    def objects(self, job: Job) -> list[PluginObject]:
        """A ConfigMap to work with, and one with results."""
        return [PluginObject(CONFIG_MAPS, name, {"data": {}}) for name in (*self.kept, "work") if self.kept]

    def removed_at_end(self, job: Job) -> list[PluginObject]:
        """All but what is kept."""
        return [item for item in self.objects(job) if item.name not in self.kept]

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


def test_job_is_terminated_when_a_plugin_raises_plugin_error(said: list[str]) -> None:
    assert live(PluginError("this Job has no head")) == ("Terminated", "Terminated")
    assert "Warning PluginError: this Job has no head" in said


def test_job_with_plugin_problems_is_terminated_without_objects_and_reports_all_problems(
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


def test_plugin_keeps_selected_objects_when_the_job_completes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Fragile, "kept", ["results"])

    async def scenario(cluster: MemoryCluster) -> tuple[list[str], list[str]]:
        def names() -> list[str]:
            return sorted(key.name for key in cluster.server.of(CONFIG_MAPS))

        cluster.job("j", plugins={"fragile": []})
        await cluster.until(lambda: len(names()) == 2)
        before = names()
        await cluster.until(lambda: cluster.admit() or cluster.pods())
        cluster.run_pods()
        await cluster.until(lambda: cluster.phase("j") == "Running")
        cluster.run_pods("Succeeded")
        await cluster.until(lambda: cluster.phase("j") == "Completed")
        await asyncio.sleep(1)
        return before, names()

    assert in_virtual_time(scenario) == (["results", "work"], ["results"])
