"""The plugin `pytorch`, which gives each pod the master's address, the number of processes, and its rank."""

from __future__ import annotations

from typing import Final

from pyroclast.api.records import Job, Task
from pyroclast.lifecycle.jobplugins import JobPlugin, Manifest
from pyroclast.lifecycle.plugins.containers import change_containers, variable, with_port, with_variables, with_wait
from pyroclast.lifecycle.plugins.hosts import address, task_named

_PORT_NAME: Final = "pytorchjob-port"

_WAIT: Final = """\
echo "waiting up to {timeout} s for the master at {host}:{port}"
elapsed=0
reach() {{
  nc -z -w 2 {host} {port} && return
  python=$(command -v python3 || command -v python) || {{ bash -c ': < /dev/tcp/{host}/{port}'; return; }}
  "$python" -c 'import socket; socket.create_connection(("{host}", {port}), 2)'
}}
until reach 2>/dev/null; do
  if [ "$elapsed" -ge {timeout} ]; then
    echo "the master at {host}:{port} could not be reached within {timeout} s"
    exit 1
  fi
  sleep 2
  elapsed=$((elapsed + 2))
done
echo "the master at {host}:{port} can be reached"
exit 0
"""
"""Connects with `nc`, Python, or the `/dev/tcp` of bash: an image may have only one of them."""


class PytorchPlugin(JobPlugin):
    """Adds the variables of `torch.distributed`: `MASTER_ADDR`, `MASTER_PORT`, `WORLD_SIZE` and `RANK`.

    With `--wait-master-enabled` the workers' containers start after the master accepts connections.
    """

    name = "pytorch"

    def pod(self, job: Job, task: Task, index: int, manifest: Manifest) -> Manifest:
        """Add the port and the variables of PyTorch to the containers. Pods of a Job without a master stay unchanged."""
        master = task_named(job, self.flags.text("master"))
        if master is None:
            return manifest
        worker = task_named(job, self.flags.text("worker"))
        host, port = address(job, master, 0), self.flags.number("port")
        variables = {
            "MASTER_ADDR": host,
            "MASTER_PORT": str(port),
            "WORLD_SIZE": str(master.replicas + (worker.replicas if worker else 0)),
        }
        if task.name == master.name:
            variables["RANK"] = "0"
        elif worker is not None and task.name == worker.name:
            variables["RANK"] = str(index + 1)
            if self.flags.is_set("wait-master-enabled"):
                script = _WAIT.format(host=host, port=port, timeout=self.flags.number("wait-master-timeout"))
                manifest = with_wait(manifest, "wait-for-master", self.flags.text("wait-master-image"), script)
        pod = change_containers(manifest, lambda container: with_port(container, _PORT_NAME, port), init=False)
        return with_variables(pod, [variable(name, value) for name, value in variables.items()], init=False)
