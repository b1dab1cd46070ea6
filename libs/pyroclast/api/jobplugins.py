"""The names of the plugins that `spec.plugins` of a Job may contain, and their flags.

The names are separate from the plugins, which only the job controller has. Admission refuses a Job whose plugin is not in this
list.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyroclast.resources.go_flags import Value

ENTRY_POINTS: Final = "pyroclast.job_plugins"
"""The group of entry points by which third parties add plugins. The name is that in `spec.plugins`; the value is the class."""

LONGEST_HOST_LIST: Final = 100_000
"""The most characters of a list of hosts in an environment variable: Linux starts no program with a variable above 128 KiB."""

MOST_IN_VARIABLES: Final = 400_000
"""The most characters of all such lists of a Job together: Linux starts no program with more than 2 MiB of variables and
arguments.
"""

BUILT_IN: Final[Mapping[str, Mapping[str, Value]]] = {
    "env": {"task-name": False},
    "slurm": {},
    "svc": {
        "publish-not-ready-addresses": False,
        "disable-network-policy": False,
        "inject-hosts-env": True,
        "wait-for-workers": False,
        "launcher": "",
        "wait-image": "",
    },
    "ssh": {"ssh-key-file-path": "/root/.ssh", "ssh-private-key": "", "ssh-public-key": "", "ssh-port": 22},
    "tensorflow": {"ps": "ps", "worker": "worker", "chief": "chief", "evaluator": "evaluator", "port": 2222},
    "mpi": {"master": "master", "worker": "worker", "port": 22},
    "pytorch": {
        "master": "master",
        "worker": "worker",
        "port": 23456,
        "wait-master-enabled": False,
        "wait-master-timeout": 300,
        "wait-master-image": "",
    },
    "ray": {
        "head": "head",
        "headContainer": "head",
        "worker": "worker",
        "workerContainer": "worker",
        "port": 6379,
        "dashboardPort": 8265,
        "clientPort": 10001,
    },
    "hcclrank": {"master": "master", "worker": "worker"},
}
"""The built-in plugins in the order in which they run, each with the defaults of its flags. A plugin that others need comes
first.
"""
