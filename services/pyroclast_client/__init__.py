"""The Python client of Pyroclast. Import it as `import pyroclast_client as pc`.

This package exports all public names. Each name is imported on first use, so that the import of the package is fast.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyroclast_client import errors
    from pyroclast_client.asynchronous import AsyncClient
    from pyroclast_client.defaults import job
    from pyroclast_client.executors import Executor
    from pyroclast_client.flow_handles import Flow
    from pyroclast_client.flow_values import otherwise, when
    from pyroclast_client.flows import flow
    from pyroclast_client.functions import task
    from pyroclast_client.jobs import Job
    from pyroclast_client.planes import local
    from pyroclast_client.pools import Pool
    from pyroclast_client.runner.standin import rank, world
    from pyroclast_client.sweeps import Sweep
    from pyroclast_client.synchronous import Client
    from pyroclast_client.torch import torchrun

__all__ = [
    "AsyncClient",
    "Client",
    "Executor",
    "Flow",
    "Job",
    "Pool",
    "Sweep",
    "errors",
    "flow",
    "job",
    "local",
    "otherwise",
    "rank",
    "task",
    "torchrun",
    "when",
    "world",
]

_HOMES: Final = {
    "AsyncClient": "asynchronous",
    "Client": "synchronous",
    "Executor": "executors",
    "Flow": "flow_handles",
    "Job": "jobs",
    "Pool": "pools",
    "Sweep": "sweeps",
    "flow": "flows",
    "job": "defaults",
    "local": "planes",
    "otherwise": "flow_values",
    "rank": "runner.standin",
    "task": "functions",
    "torchrun": "torch",
    "when": "flow_values",
    "world": "runner.standin",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - any public name
    if name == "errors":
        return importlib.import_module("pyroclast_client.errors")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it has {', '.join(sorted(__all__))}")
    found = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
