"""Collects the results of a Job's pods from termination messages, logs and the store."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pyroclast.api.types import Key
from pyroclast.kube.http.client import Client
from pyroclast.resources import indexes
from pyroclast_client import errors
from pyroclast_client.documents import STORE, SUBMISSION
from pyroclast_client.podreading import EVICTIONS, Pod, log_of
from pyroclast_client.results import UNSEALED, Outcome, decoded
from pyroclast_client.runner import sealing

AFTER_FRAMES: Final = 20  # most lines that other code may print after the result
STOPPED: Final = ("Terminated", "Aborted")


@dataclass(slots=True)
class Collector:
    """Reads the results of one Job.

    Attributes:
        kube: the client of the API server.
        job: namespace and name of the Job.
        key: the key with which the results are sealed.
        submission: the id of the submission.
        store: the URL of the store.
        fetch: reads a content of the store by its name. None means that this process reads the store itself.
        is_json: whether the pods return JSON, so that nothing is unpickled.
    """

    kube: Client
    job: Key
    key: bytes
    submission: str
    store: str
    fetch: Callable[[str], Awaitable[bytes | None]] | None = None
    is_json: bool = False

    @classmethod
    def of(cls, kube: Client, job: Mapping[str, Any], key: bytes) -> Collector:
        """Return the collector for a Job object."""
        metadata = job["metadata"]
        annotations = metadata.get("annotations") or {}
        name = Key(metadata["namespace"], metadata["name"])
        return cls(kube, name, key, annotations.get(SUBMISSION, ""), annotations.get(STORE, ""))

    async def all(self, pods: Iterable[Pod], job: Mapping[str, Any], size: int) -> list[Outcome]:
        """Return the outcome of each call (by index) of a Job that has ended."""
        chosen, status = _chosen(pods), job.get("status") or {}
        ranges = [each.get("cancelled") or "" for each in (status.get("arrays") or {}).values()]
        cancelled = {index for each in ranges for span in indexes.lenient(each) for index in span}
        is_stopped = ((status.get("state") or {}).get("phase")) in STOPPED
        return [
            await self.one(chosen[index])
            if index in chosen and (chosen[index].message or index not in cancelled)
            else self._missing(index, is_cancelled=is_stopped or index in cancelled)
            for index in range(size)
        ]

    async def one(self, pod: Pod) -> Outcome:
        """Return the outcome of the call in a pod that has ended."""
        what = f"index {pod.index} of Job {self.job}"
        if not pod.message:
            return Outcome(pod.index, error=self._unsaid(pod, what))
        try:
            message = sealing.opened(self.key, pod.message, pod.index, pod.uid)
            payload = await self._payload(message, pod)
        except sealing.SealError as error:
            text = f"{what}: {error}; {UNSEALED}. Look at who may write to pods of this namespace"
            return Outcome(pod.index, error=errors.ForgedResult(text))
        except (errors.ForgedResult, errors.ResultTooLarge) as error:
            return Outcome(pod.index, error=error)
        except OSError as error:
            text = f"{what}: its result in the store {self.store} cannot be read: {error}; read it again when the store answers"
            return Outcome(pod.index, error=errors.ResultGone(text))
        return decoded(message, payload, what=what, name=self.job.name, is_json=self.is_json)

    async def _payload(self, message: dict[str, Any], pod: Pod) -> bytes | None:
        match message["place"]:
            case "inline":
                return sealing.inline(message)
            case "log":
                tail = sealing.number_of_frames(message["size"]) + AFTER_FRAMES
                near = sealing.unframed(await log_of(self.kube, self.job.namespace, pod, tail=tail))
                return near or sealing.unframed(await log_of(self.kube, self.job.namespace, pod))
            case "store":
                name = f"{self.submission}/{pod.index}/{pod.uid}/result"
                return await (asyncio.to_thread(sealing.got, self.store, name) if self.fetch is None else self.fetch(name))
        return b""

    def _unsaid(self, pod: Pod, what: str) -> errors.PyroclastError:
        """Return the error for a pod that ended without a message, because it was killed or its interpreter crashed."""
        if pod.phase == "Succeeded":
            return errors.ResultGone(f"{what}: pod {pod.name} ended well and left no result; look at its log")
        if pod.reason == "DeadlineExceeded":
            return errors.TimedOut(f"{what}: pod {pod.name} was ended by its deadline; give a longer `timeout`")
        is_evicted = pod.reason in EVICTIONS
        why = f" ({pod.reason})" if pod.reason else ""
        text = (
            f"{what}: pod {pod.name} ended with exit code {pod.exit_code}{why}; `logs(index={pod.index})` shows what it printed"
        )
        kind = errors.Evicted if is_evicted else errors.JobFailed
        return kind(text, job=str(self.job), phase=pod.phase, reason=pod.reason, index=pod.index, exit_code=pod.exit_code)

    def _missing(self, index: int, *, is_cancelled: bool) -> Outcome:
        if is_cancelled:
            text = f"index {index} of Job {self.job} was cancelled before it had a result; submit it again to have one"
            return Outcome(index, error=errors.JobFailed(text, job=str(self.job), phase="Cancelled", index=index))
        text = f"index {index} of Job {self.job}: its pod is gone, and the result with it; fetch results as Jobs end"
        return Outcome(index, error=errors.ResultGone(text))


def _chosen(pods: Iterable[Pod]) -> dict[int, Pod]:
    """Return the pod with the valid outcome for each index: the latest with a termination message, otherwise the latest."""
    latest: dict[int, Pod] = {}
    for pod in pods:  # the latest pod of an index is the last
        if pod.index not in latest or pod.message or not latest[pod.index].message:
            latest[pod.index] = pod
    return latest
