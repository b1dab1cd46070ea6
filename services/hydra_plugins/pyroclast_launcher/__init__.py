"""The launcher `pyroclast` of Hydra: `python app.py --multirun hydra/launcher=pyroclast`. Each run of a sweep is a Job.

It is the launcher of `hydra-submitit-launcher` with the executor `pyroclast` of submitit. Hydra takes plugins from this namespace
only.
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
    """What `hydra.launcher.NAME` sets: the parameters of submitit that all executors have, and options of a task."""

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
    """Runs the jobs of a sweep as Jobs, side by side, and waits for them."""

    _EXECUTOR: ClassVar[str] = "pyroclast"

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[Any]:
        """Run a job for each list of overrides."""
        cloudpickle.register_pickle_by_value(import_module(__name__))  # pods have Hydra and nothing of ours
        return list(super().launch(job_overrides, initial_job_idx))


ConfigStore.instance().store(group="hydra/launcher", name="pyroclast", node=PyroclastQueueConf(), provider="pyroclast")
