"""The launcher `pyroclast` of Hydra: `python app.py --multirun hydra/launcher=pyroclast`. Each run of a sweep is a Pyroclast Job.

The launcher is that of `hydra-submitit-launcher` with the executor `pyroclast` of submitit. Hydra only finds plugins in the
package `hydra_plugins`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, ClassVar

import cloudpickle
from hydra.core.config_store import ConfigStore
from hydra_plugins.hydra_submitit_launcher.config import BaseQueueConf
from hydra_plugins.hydra_submitit_launcher.submitit_launcher import BaseSubmititLauncher

__all__ = ["PyroclastLauncher", "PyroclastQueueConf"]


@dataclass
class PyroclastQueueConf(BaseQueueConf):  # type: ignore[misc]  # Hydra is not installed where types are checked
    """The settings `hydra.launcher.NAME`: submitit's parameters for every executor, and options of `pyroclast_client.task`."""

    _target_: str = f"{__name__}.PyroclastLauncher"
    max_num_timeout: int = 3
    queue: str | None = None
    image: str | None = None
    priority: str | None = None
    python: str | None = None
    retries: int = 0
    mounts: dict[str, Any] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)
    secrets: dict[str, str] = field(default_factory=dict)


class PyroclastLauncher(BaseSubmititLauncher):  # type: ignore[misc]  # see above
    """Runs the jobs of a sweep as Pyroclast Jobs, in parallel, and waits until they end."""

    _EXECUTOR: ClassVar[str] = "pyroclast"

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[Any]:
        """Run one job for each list of overrides. Return the results in the same order."""
        cloudpickle.register_pickle_by_value(import_module(__name__))  # the image has Hydra, but not this module
        return list(super().launch(job_overrides, initial_job_idx))


ConfigStore.instance().store(group="hydra/launcher", name="pyroclast", node=PyroclastQueueConf(), provider="pyroclast")
