"""Jobs that kubectl submits at a steady rate while something else happens."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.e2e.jobs.test_first_light import job
from tests.e2e.support.audit import Audit
from tests.e2e.support.cluster import wait_until

AT_ONCE = 5
"""Jobs of one kubectl."""
PER_MINUTE = 200
LOOK_SECONDS = 0.5
MORE_SECONDS = 8.0
"""A replica that ends answers for 5 s more, until no request reaches it; Jobs are submitted until that is over."""
END_SECONDS = 240.0


@dataclass(slots=True)
class Load:
    """What was submitted to `namespace`, and what kubectl said of what was refused."""

    kubeconfig: Path
    namespace: str
    names: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)

    def run(self, begins: Callable[[], bool], seconds: float) -> None:
        """Submit from when `begins` says so until a little after it is stopped, for `seconds` at most."""
        while not begins():
            if self.stop.wait(LOOK_SECONDS):
                return
        began = time.monotonic()
        end = began + seconds
        while time.monotonic() < end:
            if self.stop.is_set():
                end = min(end, time.monotonic() + MORE_SECONDS)
                self.stop.clear()
            names = [f"load-{len(self.names) + number}" for number in range(AT_ONCE)]
            # documents and no List, which kubectl checks itself, by a schema that a loaded API server takes half a minute for
            done = self._kubectl("create", "-f", "-", stdin="\n".join(job(name, command=["true"]) for name in names))
            self.names += names
            if done.returncode != 0:
                self.refused.append(done.stderr)
            time.sleep(max(0.0, began + len(self.names) * 60 / PER_MINUTE - time.monotonic()))

    def check(self, audit: Audit) -> None:
        """No Job was refused or lost, none has two pods of a name, and each completes."""
        assert self.names, "nothing began"
        assert not self.refused, f"{len(self.refused)} times, first: {self.refused[0]}"
        assert audit.created("jobs", self.namespace) == Counter(self.names)
        wait_until(lambda: self.phases() == {"Completed": len(self.names)}, "all Jobs to complete", seconds=END_SECONDS)
        pods = audit.created("pods", self.namespace)  # not those that the API server made although it ran out of time
        assert set(pods) <= {f"{name}-worker-0" for name in self.names}
        assert not [name for name, count in pods.items() if count > 1]

    def phases(self) -> Counter[str]:
        done = self._kubectl("get", "vcjob", "-o", "json")
        assert done.returncode == 0, done.stderr
        items = json.loads(done.stdout)["items"]
        return Counter(item.get("status", {}).get("state", {}).get("phase", "") for item in items)

    def _kubectl(self, *arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "KUBECONFIG": str(self.kubeconfig)}
        command = ["kubectl", "-n", self.namespace, *arguments]
        return subprocess.run(command, env=environment, input=stdin, capture_output=True, text=True, timeout=90, check=False)


@contextlib.contextmanager
def jobs_meanwhile(kubeconfig: Path, namespace: str, begins: Callable[[], bool], *, seconds: float) -> Iterator[Load]:
    """Submit while the block lasts and a little longer, from when `begins` says so, for `seconds` at most."""
    load = Load(kubeconfig, namespace)
    thread = threading.Thread(target=load.run, args=(begins, seconds))
    thread.start()
    try:
        yield load
    finally:
        load.stop.set()
        thread.join()
