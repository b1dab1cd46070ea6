"""The service against an API server: what it writes, how often, and what it does when things go wrong or it is killed."""

import asyncio
from collections import Counter

import pytest

from pyroclast.api import decisions
from pyroclast.api.keys import GROUP_NAME
from pyroclast.api.types import EVENTS, POD_GROUPS, PODS, PRIORITY_CLASSES, QUEUES, Key
from pyroclast.kube.http.client import PatchKind
from pyroclast_scheduler.cache import jobs
from pyroclast_scheduler.shell import configfile
from tests.unit.logs import captured


def all_bound(cluster, prefix):
    async def look():
        places = await cluster.places(prefix)
        return places if places and all(places.values()) else None

    return look


def phase_is(cluster, name, phase):
    async def look():
        group = await cluster.group(name)
        return group if (group.get("status") or {}).get("phase") == phase else None

    return look


async def test_scheduler_creates_default_queues_and_binds_a_gang_with_few_writes(cluster):
    await cluster.node("n1")
    await cluster.node("n2")
    async with cluster.scheduler():
        queues = await cluster.until(lambda: queues_of(cluster))
        assert {"root": False, "default": True}.items() <= queues.items()
        cluster.server.forget_requests()
        await cluster.gang("g", 4, cpu="2")
        places = await cluster.until(all_bound(cluster, "g-"))
        assert Counter(places.values()) == {"n1": 2, "n2": 2}
        await cluster.until(phase_is(cluster, "g", "Running"))
        await cluster.until(lambda: allocated_is(cluster, {"cpu": "8", "memory": "4Gi", "pods": "4"}))
        await cluster.until(lambda: quiet(cluster))
        requests = cluster.server.requests()
        assert requests["create", "pods"] == 4 + 4  # ours to make them, one bind each
        assert requests["patch", "podgroups"] <= 4
        assert requests["patch", "pods"] == 0
        scheduled = await scheduled_of(cluster, "g")
        assert (scheduled["status"], scheduled["reason"]) == ("True", "tasks in gang are ready to be scheduled")


async def test_scheduled_condition_of_a_traced_gang_names_the_session_that_placed_it(cluster):
    await cluster.node("n1")
    await cluster.node("n2")
    async with cluster.scheduler():
        await cluster.until(lambda: queues_of(cluster))
        await cluster.gang("g", 4, cpu="2", trace="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
        await cluster.until(all_bound(cluster, "g-"))
        await cluster.until(phase_is(cluster, "g", "Running"))
        await cluster.until(lambda: quiet(cluster))
        scheduled = await scheduled_of(cluster, "g")
        assert decisions.parse(scheduled["message"]) == decisions.Decision(scheduled["transitionID"], 2)


async def test_a_bound_gang_gets_one_event_labelled_with_its_group_name_and_no_pod_patch(cluster):
    await cluster.node("n1")
    async with cluster.scheduler():
        await cluster.until(lambda: queues_of(cluster))
        cluster.server.forget_requests()
        await cluster.gang("g", 3, cpu="1")
        await cluster.until(all_bound(cluster, "g-"))
        await cluster.until(lambda: quiet(cluster))
        pods, _ = await cluster.client.list(PODS)
        (group,) = {pod["metadata"]["annotations"][GROUP_NAME] for pod in pods}
        events, _ = await cluster.client.list(EVENTS, label_selector=f"{GROUP_NAME}={group}")
        (event,) = events
        assert event["involvedObject"]["name"] in {pod["metadata"]["name"] for pod in pods}
        assert (event["reason"], event["involvedObject"]["kind"]) == ("Scheduled", "Pod")
        requests = cluster.server.requests()
        assert (requests["create", "pods"], requests["patch", "pods"], requests["update", "pods"]) == (3 + 3, 0, 0)


async def scheduled_of(cluster, name):
    """The condition Scheduled of a gang. A slow arrival leaves Unschedulable too."""
    conditions = (await cluster.group(name))["status"]["conditions"]
    return next(each for each in conditions if each["type"] == "Scheduled")


async def allocated_is(cluster, want):
    queue = await cluster.client.get(QUEUES, Key("", "default"))
    return queue.get("status", {}).get("allocated") == want


async def quiet(cluster):
    """Whether nothing was written for a second."""
    before = writes(cluster)
    await asyncio.sleep(1.0)
    return writes(cluster) == before


def writes(cluster):
    return sum(count for (verb, _), count in cluster.server.requests().items() if verb not in {"get", "list", "watch"})


async def queues_of(cluster):
    queues, _ = await cluster.client.list(QUEUES)
    found = {queue["metadata"]["name"]: queue["spec"].get("reclaimable") for queue in queues}
    return found if len(found) >= 2 else None


async def test_a_gang_that_does_not_fit_gets_conditions_once_and_is_bound_when_a_node_is_added(cluster):
    await cluster.node("n1")
    await cluster.node("n2")
    async with cluster.scheduler():
        await cluster.gang("g", 3, cpu="2500m")

        async def told():
            conditions = (await cluster.group("g")).get("status", {}).get("conditions")
            pods, _ = await cluster.client.list(PODS)
            says = [each for pod in pods for each in pod["status"].get("conditions", []) if each["type"] == "PodScheduled"]
            return (conditions, says) if conditions and len(says) == 3 else None

        conditions, says = await cluster.until(told)
        assert conditions[0]["type"] == "Unschedulable"
        assert "0/2 nodes are unavailable: 2 Insufficient cpu." in conditions[0]["message"]
        assert Counter(each["reason"] for each in says) == {"Schedulable": 2, "Unschedulable": 1}
        assert not any((await cluster.places()).values())
        patches = cluster.server.requests()["patch", "pods"]
        await asyncio.sleep(2.0)
        assert cluster.server.requests()["patch", "pods"] == patches
        await cluster.node("n3")
        await cluster.until(all_bound(cluster, "g-"))
        events, _ = await cluster.client.list(EVENTS)
        reasons = {(event["involvedObject"]["kind"], event["type"], event["reason"]) for event in events}
        assert {("Pod", "Warning", "FailedScheduling"), ("PodGroup", "Warning", "Unschedulable")} <= reasons


async def test_a_gang_started_at_minmember_gets_an_unschedulable_event_for_the_waiting_pods(cluster):
    await cluster.node("n1", cpu="2")
    await cluster.gang("g", 4, minimum=2)
    async with cluster.scheduler():
        await cluster.until(phase_is(cluster, "g", "Running"))

        async def unschedulable():
            events, _ = await cluster.client.list(EVENTS)
            of_group = (event for event in events if event["involvedObject"]["kind"] == "PodGroup")
            return next((event["message"] for event in of_group if event["reason"] == "Unschedulable"), None)

        message = await cluster.until(unschedulable)
    assert message.startswith("2/4 tasks in gang unschedulable: pod group is ready"), message
    assert [each["type"] for each in (await cluster.group("g"))["status"]["conditions"]] == ["Scheduled"]


async def test_a_pod_whose_podgroup_does_not_exist_says_so_until_the_podgroup_is_created(cluster, monkeypatch):
    monkeypatch.setattr(jobs, "_PATIENCE_SECONDS", 1.0)
    await cluster.node("n1")
    await cluster.pod("p", "typo", "1")

    async def said():
        pod = await cluster.client.get(PODS, Key("default", "p"))
        return next((each["message"] for each in pod["status"].get("conditions", ()) if each["type"] == "PodScheduled"), None)

    async with cluster.scheduler():
        assert await cluster.until(said) == "LeftOut: PodGroup typo does not exist; create it in namespace default"
        await cluster.gang("typo", 0, minimum=1)
        await cluster.until(all_bound(cluster, "p"))


async def test_a_refused_bind_is_tried_again_until_the_gang_is_whole(cluster):
    await cluster.node("n1", cpu="8")
    async with cluster.scheduler():
        await cluster.until(lambda: queues_of(cluster))
        # the binds of the gang are creates of pods/binding: some meet a server that fails, one is refused for good
        await cluster.gang("g", 4, minimum=4)
        for code in (409, 422, 403):
            cluster.server.fail_next("create", "pods", code)
        await cluster.until(all_bound(cluster, "g-"))


async def half_a_gang(cluster):
    """A gang of four with two pods bound, as a scheduler leaves it that ends between its binds."""
    await cluster.gang("g", 4)
    for i in range(2):
        await cluster.bind(f"g-w-{i}", "n1")


async def test_half_a_gang_left_behind_is_completed_after_a_restart(cluster):
    await cluster.node("n1", cpu="8")
    await half_a_gang(cluster)
    async with cluster.scheduler():
        await cluster.until(all_bound(cluster, "g-"))


@pytest.mark.usefixtures("impatient")
async def test_half_a_gang_that_cannot_be_completed_is_released(cluster):
    await cluster.node("n1", cpu="2")
    await half_a_gang(cluster)

    async def released():  # no node is there to say that they are gone
        pods, _ = await cluster.client.list(PODS)
        leaving = {pod["metadata"]["name"] for pod in pods if "deletionTimestamp" in pod["metadata"]}
        return leaving == {"g-w-0", "g-w-1"}

    async with cluster.scheduler():
        await cluster.until(released)
        events, _ = await cluster.client.list(EVENTS)
        assert "GangReleased" in {event["reason"] for event in events}


async def test_a_podgroup_of_a_missing_queue_does_not_block_other_gangs(cluster):
    await cluster.node("n1", cpu="8")
    await cluster.gang("lost", 1, queue="nowhere")
    key = Key("default", "lost")
    await cluster.client.patch(POD_GROUPS, key, {"metadata": {"annotations": {"odd": "\x07"}}}, PatchKind.MERGE)
    async with cluster.scheduler():
        await cluster.gang("g", 2)
        await cluster.until(all_bound(cluster, "g-"))
        assert (await cluster.places("lost")) == {"lost-w-0": None}

        async def told():
            events, _ = await cluster.client.list(EVENTS)
            return "LeftOut: queue nowhere does not exist" in {event["message"] for event in events}

        await cluster.until(told)


async def test_an_invalid_configuration_is_ignored_and_later_valid_versions_are_loaded(cluster, tmp_path, monkeypatch):
    events = captured(monkeypatch, configfile)
    path = tmp_path / "scheduler.conf"
    path.write_text("actions: enqueue,\n")
    await cluster.node("n1")
    async with cluster.scheduler(**{"scheduler-conf": str(path)}):
        await cluster.gang("g", 1)
        await cluster.until(all_bound(cluster, "g-"))
        events.clear()

        async def is_taken_up():
            return any(event["event"] == "configuration.loaded" for event in events)

        path.write_text("actions: enqueue\ntiers: [{plugins: [{name: gang}]}]\n")
        await cluster.until(is_taken_up)
        await cluster.gang("h", 1)
        await cluster.until(phase_is(cluster, "h", "Inqueue"))
        await asyncio.sleep(0.5)
        assert (await cluster.places("h-")) == {"h-w-0": None}
        good = "actions: 'enqueue, allocate'\ntiers: [{plugins: [{name: gang}, {name: predicates}]}]\n"
        path.write_text(good.replace("name: gang", "name: gnag"))

        async def is_refused():
            events, _ = await cluster.client.list(EVENTS)
            return any("plugin 'gnag' does not exist; did you mean gang?" in event["message"] for event in events)

        await cluster.until(is_refused)
        assert (await cluster.places("h-")) == {"h-w-0": None}
        path.write_text(good)
        await cluster.until(all_bound(cluster, "h-"))


async def test_a_pod_of_higher_priority_preempts_a_pod_of_lower_priority(cluster, tmp_path):
    path = tmp_path / "scheduler.conf"
    tier = "{plugins: [{name: priority}, {name: gang, enablePreemptable: false}, {name: predicates}]}"
    path.write_text(f"actions: 'enqueue, allocate, preempt'\ntiers: [{tier}]\n")
    await cluster.node("n1", cpu="2")
    urgent = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "urgent"}, "value": 1000}
    await cluster.client.create(PRIORITY_CLASSES, urgent)
    async with cluster.scheduler(**{"scheduler-conf": str(path)}):
        await cluster.gang("low", 2, minimum=1)
        await cluster.until(all_bound(cluster, "low-"))
        await cluster.gang("high", 1, priority="urgent")

        async def evicted():
            pods, _ = await cluster.client.list(PODS)
            return [pod for pod in pods if "deletionTimestamp" in pod["metadata"]]

        (victim,) = await cluster.until(evicted)
        says = {each["type"]: (each["status"], each.get("reason")) for each in victim["status"]["conditions"]}
        assert says["DisruptionTarget"] == ("True", "PreemptionByScheduler")
        assert says["Ready"] == ("False", "Evict")
        events, _ = await cluster.client.list(EVENTS)
        messages = {event["message"] for event in events if event["reason"] == "Evict"}
        assert "Pod is evicted, because of preempt for default/high in queue default" in messages
        key = Key("default", victim["metadata"]["name"])
        await cluster.client.delete(PODS, key, grace_seconds=0)
        await cluster.until(all_bound(cluster, "high-"))
        assert len(await cluster.places("low-")) == 1
