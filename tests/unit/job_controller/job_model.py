"""A Job's lifecycle as the specification tells it: edge-triggered requests, one after the other, pods that go at once.

It shares no code and no idea with the controller, which looks at states instead of events; what a watcher sees at the end, and
the phases on the way there, must be the same. Where we differ on purpose the model does as we do, and says so.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

FINISHED = ("Succeeded", "Failed")
TARGETED = ("RestartTask", "RestartPod", "RestartPartition")
ENTERED = {"AbortJob": "Aborting", "TerminateJob": "Terminating", "CompleteJob": "Completing"}
AT_REST = {"Aborting": "Aborted", "Terminating": "Terminated", "Completing": "Completed"}
SILENT = ("OutOfSync", "CommandIssued", "PodRunning")
_RESTARTS = 3


@dataclass(eq=False)
class ModelPod:
    name: str
    task: str
    partition: str
    version: int
    retries: int
    phase: str = "Pending"
    marked: bool = False


@dataclass(frozen=True)
class Request:
    event: str
    action: str = ""
    pod: ModelPod | None = None
    exit_code: int = 0


@dataclass
class JobModel:
    """`held`: pods that no node starts."""

    spec: dict[str, Any]
    held: set[str] = field(default_factory=set)
    phase: str = ""
    version: int = 0
    retries: int = 0
    group: str | None = None
    pods: dict[str, ModelPod] = field(default_factory=dict)
    gone: dict[str, ModelPod] = field(default_factory=dict)
    """The pods that were deleted after their success; with us they still count, and do not run again."""
    counts: Counter[str] = field(default_factory=Counter)
    trace: list[str] = field(default_factory=list)
    requests: deque[Request] = field(default_factory=lambda: deque([Request("OutOfSync")]))

    # what happens

    def fail(self, name: str, code: int) -> None:
        if pod := self._running(name):
            pod.phase = "Failed"
            self._request("PodFailed", pod, code)

    def succeed(self, name: str) -> None:
        if pod := self._running(name):
            pod.phase = "Succeeded"
            done = self._successes(pod.task) >= self._task(pod.task)["replicas"]
            self._request("TaskCompleted" if done else "OutOfSync", pod)

    def evict(self, name: str) -> None:
        pod = self.pods.get(name)
        if pod and pod.phase in FINISHED:  # with us a pod that has ended is not evicted
            del self.pods[name]
            self.gone |= {name: pod} if pod.phase == "Succeeded" else {}
            self.requests.append(Request("OutOfSync"))
        elif pod:
            self._gone(pod)

    def restart(self, name: str, times: int) -> None:
        """The containers of a pod were restarted so often; its own count decides, not that of its task."""
        if pod := self._running(name):
            limit = self._task(pod.task).get("maxRetry", _RESTARTS)
            self._request("TaskFailed" if 0 < limit <= times else "OutOfSync", pod)

    def command(self, action: str) -> None:
        self.requests.append(Request("CommandIssued", action))

    def turn_unknown(self) -> None:
        if self.group and self.group != "Unknown":  # the PodGroup tells of a change alone
            self.group = "Unknown"
            self.requests.append(Request("Unknown"))

    def scale(self, replicas: Mapping[str, int]) -> None:
        for task in self.spec["tasks"]:
            task["replicas"] = replicas.get(task["name"], task["replicas"])
            task["minAvailable"] = min(task["minAvailable"], task["replicas"])
        self.gone = {name: pod for name, pod in self.gone.items() if name in self._wanted()}
        self.requests.append(Request("OutOfSync"))

    def settle(self) -> None:
        """Work until nothing is left to be done: requests first, then the scheduler, then the nodes."""
        while True:
            waiting = [pod for pod in self.pods.values() if pod.phase == "Pending" and pod.name not in self.held]
            if self.requests:
                request = self.requests.popleft()
                self._execute(self._action(request), request)
            elif self.group == "":
                self.group = "Inqueue"
                self.requests.append(Request(""))
            elif waiting:
                for pod in waiting:
                    pod.phase = "Running"
                    self._request("PodRunning", pod)
            else:
                return

    # policies

    def _action(self, request: Request) -> str:
        pod = request.pod
        if request.action:
            return request.action
        if request.event in SILENT or (pod and pod.version < self.version):
            return "SyncJob"
        of_task = self._task(pod.task).get("policies", ()) if pod else ()
        return _match(of_task, request) or _match(self.spec.get("policies", ()), request) or "SyncJob"

    # states

    def _execute(self, action: str, request: Request) -> None:
        match self.phase:
            case "" | "Pending" | "Running":
                if action == "RestartJob":
                    self._kill((), self._entering("Restarting", retry=True))
                elif action in TARGETED:
                    self._kill_part(action, request.pod, self._entering("Restarting", retry=True))
                elif action in ENTERED:
                    self._kill(FINISHED, self._entering(ENTERED[action]))
                else:
                    self._sync()
            case "Restarting":
                if action in TARGETED:
                    self._kill_part(action, request.pod, self._restarting)
                elif action == "SyncJob":
                    self._sync()
                elif action in ENTERED:  # with us a Job that restarts can be ended
                    self._kill(FINISHED, self._entering(ENTERED[action]))
                else:
                    self._kill((), self._restarting)
            case "Aborting" | "Completing" if action in ENTERED and ENTERED[action] != self.phase:  # or in another way, with us
                self._kill(FINISHED, self._entering(ENTERED[action]))
            case "Aborting" | "Aborted" if action == "ResumeJob":
                self._kill(FINISHED, self._entering("Restarting", retry=True))
            case _:
                self._kill(FINISHED, self._coming_to_rest)

    def _entering(self, phase: str, *, retry: bool = False) -> Callable[[], None]:
        def enter() -> None:
            self.phase = phase
            self.retries += retry

        return enter

    def _coming_to_rest(self) -> None:
        if not self.counts["terminating"] + self.counts["Pending"] + self.counts["Running"]:
            self.phase = AT_REST.get(self.phase, self.phase)

    def _restarting(self) -> None:
        if self.retries >= self.spec["maxRetry"]:
            self.phase = "Failed"
        elif self._total() - self.counts["terminating"] >= self.spec["minAvailable"]:
            self.phase = "Pending"

    def _pending(self) -> None:
        if self.spec["minAvailable"] <= sum(self.counts[phase] for phase in ("Running", *FINISHED)):
            self.phase = "Running"

    def _going_on(self) -> None:
        counts, total, gang, success = self.counts, self._total(), self.spec["minAvailable"], self.spec.get("minSuccess")
        if not total:
            return
        if success and counts["Succeeded"] >= success:
            self.phase = "Completed"
        elif counts["Succeeded"] + counts["Failed"] == total:
            good = counts["Succeeded"] >= gang and not success and self._tasks_are_good(gang)
            self.phase = "Completed" if good else "Failed"
        elif counts["Pending"] > total - gang:
            self.phase = "Pending"

    def _tasks_are_good(self, gang: int) -> bool:
        if gang < sum(task["minAvailable"] for task in self.spec["tasks"]):
            return True
        return all(
            self._successes(task["name"]) >= task["minAvailable"]
            for task in self.spec["tasks"]
            if self._of_task(task["name"]) or self._successes(task["name"])
        )

    # synchronising and killing

    def _sync(self) -> None:
        before = self.phase
        if not self.phase:
            self._write(self._entering("Pending"))
            before = "Pending"
        self.group = self.group or ""
        if self.group:
            self._bring_in_line()
        rules = {"Pending": self._pending, "Running": self._going_on, "Restarting": self._restarting}
        self._write(rules[before])

    def _bring_in_line(self) -> None:
        wanted = self._wanted()
        missing = [slot for name, slot in wanted.items() if name not in self.pods and name not in self.gone]
        created = [self._made(*slot) for slot in missing if self._may_start(slot[0])]
        present = Counter(pod.phase for name, pod in {**self.pods, **self.gone}.items() if name in wanted)
        self.counts = present + Counter(Pending=len(created))
        for pod in [pod for name, pod in self.pods.items() if name not in wanted or pod.marked]:
            pod.marked = True  # scaling down is no eviction with us
            self._gone(pod)
            self.counts["terminating"] += 1
        for pod in created:
            self.pods[pod.name] = pod
            self._request("PodPending", pod)

    def _kill(self, keep: Iterable[str], then: Callable[[], None]) -> None:
        self.version += 1
        self.gone = self.gone if keep else {}
        kept = FINISHED if self.retries >= self.spec["maxRetry"] - 1 else keep
        self._release([pod for pod in self.pods.values() if pod.phase not in kept], then)
        self.group = None

    def _kill_part(self, action: str, cause: ModelPod | None, then: Callable[[], None]) -> None:
        chosen = [pod for pod in self.pods.values() if cause and _is_meant(action, pod, cause)]
        self.gone = {name: pod for name, pod in self.gone.items() if not (cause and _is_meant(action, pod, cause))}
        if action == "RestartPartition" and not chosen:
            self._write(lambda: None)
            self.requests.append(Request("OutOfSync"))  # with us a pod that is missing is made again all the same
            return
        self._release(chosen, then)

    def _release(self, pods: list[ModelPod], then: Callable[[], None]) -> None:
        for pod in pods:
            pod.marked = True
            self._gone(pod)
        self.counts = Counter(terminating=len(pods))
        self._write(then)

    def _write(self, change: Callable[[], None]) -> None:
        before = self.phase
        change()
        if self.phase != before:
            self.trace.append(self.phase)
            self.requests.append(Request("OutOfSync"))

    # pods

    def _request(self, event: str, pod: ModelPod, code: int = 0) -> None:
        self.requests.append(Request("OutOfSync" if pod.marked else event, pod=pod, exit_code=code))

    def _gone(self, pod: ModelPod) -> None:
        del self.pods[pod.name]
        self._request("PodEvicted", pod)

    def _made(self, task: dict[str, Any], index: int) -> ModelPod:
        policy = task.get("partitionPolicy")
        partition = str(index // policy["partitionSize"]) if policy else ""
        return ModelPod(self._name(task, index), task["name"], partition, self.version, self.retries)

    def _may_start(self, task: dict[str, Any]) -> bool:
        return all(
            sum(pod.phase == "Running" for pod in self._of_task(name)) + self._successes(name) >= self._task(name)["minAvailable"]
            for name in task.get("dependsOn", {}).get("name", ())
        )

    def _running(self, name: str) -> ModelPod | None:
        pod = self.pods.get(name)
        return pod if pod and pod.phase == "Running" else None

    def _wanted(self) -> dict[str, tuple[dict[str, Any], int]]:
        return {self._name(task, index): (task, index) for task in self.spec["tasks"] for index in range(task["replicas"])}

    def _successes(self, task: str) -> int:
        return sum(pod.task == task and pod.phase == "Succeeded" for pod in (*self.pods.values(), *self.gone.values()))

    def _of_task(self, name: str) -> list[ModelPod]:
        return [pod for pod in self.pods.values() if pod.task == name]

    def _task(self, name: str) -> dict[str, Any]:
        return next(task for task in self.spec["tasks"] if task["name"] == name)

    def _total(self) -> int:
        return sum(task["replicas"] for task in self.spec["tasks"])

    @staticmethod
    def _name(task: dict[str, Any], index: int) -> str:
        return f"j-{task['name']}-{index}"


def _match(policies: Iterable[dict[str, Any]], request: Request) -> str:
    for policy in policies:
        named = request.event and request.event != "PodPending" and policy.get("event") in (request.event, "*")
        if named or policy.get("exitCode", -1) == request.exit_code:
            return policy["action"]
    return ""


def _is_meant(action: str, pod: ModelPod, cause: ModelPod) -> bool:
    match action:
        case "RestartTask":
            return pod.task == cause.task
        case "RestartPod":
            return pod.name == cause.name
        case _:
            return bool(pod.partition) and (pod.task, pod.partition) == (cause.task, cause.partition)
