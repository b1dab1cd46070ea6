"""Commands: each is carried out once, and whoever gave one that cannot be carried out learns why."""

import pytest

from pyroclast.api import keys
from pyroclast.api.types import COMMANDS, EVENTS, QUEUES, Key
from pyroclast.kube.basics.errors import ConnectionFailed

from .cluster import NS, authorized
from .test_controller import command, told


async def all_told(cluster):
    return [f"{event['involvedObject']['kind']}: {event['message']}" for event in (await cluster.client.list(EVENTS))[0]]


async def said(cluster, words):
    await cluster.until(lambda: contains(cluster, words))


async def contains(cluster, words):
    return any(words in line for line in await all_told(cluster))


async def test_a_command_whose_deletion_got_no_answer_is_carried_out_once(cluster, monkeypatch):
    await cluster.running("j")
    client, lost = cluster.controller_client, []
    delete = client.delete

    async def deleted_but_not_answered(kind, key, **more):
        answer = await delete(kind, key, **more)
        if kind == COMMANDS and not lost:
            lost.append(key)
            raise ConnectionFailed("reset")
        return answer

    monkeypatch.setattr(client, "delete", deleted_but_not_answered)
    await command(cluster, "AbortJob")
    await cluster.reaches("j", "Aborted")
    assert len(lost) == 1
    text = "CommandIssued: Start to execute command AbortJob, and clean it up to make sure executed not more than once."
    assert (await told(cluster)).count(text) == 1


async def test_command_deleted_before_its_execution_is_not_executed(cluster, monkeypatch):
    await cluster.running("j")
    client, asked = cluster.controller_client, []
    get = client.get

    async def withdrawn(kind, key, **more):
        if kind == COMMANDS:
            asked.append(key)
            await cluster.client.delete(kind, key)
        return await get(kind, key, **more)

    monkeypatch.setattr(client, "get", withdrawn)
    await command(cluster, "AbortJob")
    await cluster.until(lambda: true_of(asked))
    await cluster.running("k")
    assert await cluster.phase("j") == "Running"


async def true_of(what):
    return bool(what)


async def none_left(cluster):
    return await cluster.names(COMMANDS) == []


async def test_command_with_the_uid_of_an_earlier_job_is_reported_deleted_and_not_executed(cluster):
    await cluster.running("j")
    await command(cluster, "AbortJob", uid="of-before")
    await said(cluster, "was not carried out: it is for the Job with uid of-before, which had this name before")
    assert await cluster.phase("j") == "Running"
    await cluster.until(lambda: none_left(cluster))


async def test_command_for_a_missing_job_gets_an_event_on_the_command(cluster):
    await command(cluster, "AbortJob", name="nobody", uid="x")
    await said(cluster, f"was not carried out: Job {Key(NS, 'nobody')} does not exist")
    assert any(line.startswith("Command: AbortJob of command c-") for line in await all_told(cluster))


@pytest.mark.parametrize(
    ("action", "words"),
    [("ResumeJob", "means nothing to a Job that is Running"), ("Explode", "that is no action of a Job, which are AbortJob")],
)
async def test_command_without_effect_on_a_job_is_reported_in_an_event(cluster, action, words):
    await cluster.running("j")
    await command(cluster, action)
    await said(cluster, f"Job: {action} had no effect: ")
    assert await contains(cluster, words)
    assert await cluster.phase("j") == "Running"


async def test_command_without_effect_on_a_queue_is_reported_in_an_event(cluster):
    await command(cluster, "OpenQueue", QUEUES, "default")
    await said(cluster, "had no effect: the queue is Open already")
    await command(cluster, "Explode", QUEUES, "default")
    await said(cluster, "had no effect: that is no action of a Queue, which are OpenQueue and CloseQueue")


UNAUTHORIZED = {
    "without the annotation": (lambda _: {}, {}),
    "authorized for another action": (lambda uid: {keys.AUTHORIZED_FOR: f"{uid}/SyncQueue"}, {}),
    "authorized for another target": (lambda _: {keys.AUTHORIZED_FOR: "another/CloseQueue"}, {}),
    "for no uid": (lambda _: {keys.AUTHORIZED_FOR: "/CloseQueue"}, {"uid": ""}),
}


@pytest.mark.parametrize(("annotations", "other"), UNAUTHORIZED.values(), ids=UNAUTHORIZED.keys())
async def test_command_that_admission_did_not_check_waits_and_delays_no_other(cluster, annotations, other):
    uid = (await cluster.client.get(QUEUES, Key("", "default")))["metadata"]["uid"]
    target = {"apiVersion": QUEUES.api_version, "kind": "Queue", "name": "default", "uid": uid}
    body = authorized("CloseQueue", {**target, **other}, name="early", annotations=annotations(uid))
    await cluster.client.create(COMMANDS, body)
    await said(cluster, "Command: CloseQueue of command early waits: ")
    await command(cluster, "SyncQueue", QUEUES, "default")
    await cluster.until(lambda: only_early_is_left(cluster))
    assert (await cluster.client.get(QUEUES, Key("", "default")))["status"]["state"] == "Open"
    await command(cluster, "CloseQueue", QUEUES, "default")
    await cluster.until(lambda: is_closed(cluster))


async def only_early_is_left(cluster):
    return await cluster.names(COMMANDS) == ["early"]


async def is_closed(cluster):
    return (await cluster.client.get(QUEUES, Key("", "default")))["status"]["state"] == "Closed"
