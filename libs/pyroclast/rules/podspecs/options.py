"""The differences between the checks of pods by the API server and of templates by Volcano's admission.

Volcano uses an older library, and its admission sees templates without defaults.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Options:
    """How a pod is checked.

    Attributes:
        has_defaults: Whether defaults are set, so that a field with a default must not be absent.
        current: Whether to check like the current API server, which accepts more forms and reports more faults.
        pod_level_resources: Whether pods as a whole may have resources.
        pod_name: The name of the pod; None for a template.
    """

    has_defaults: bool
    current: bool
    pod_level_resources: bool = True
    pod_name: str | None = None


ADMISSION: Final = Options(has_defaults=False, current=False)
"""For templates of tasks, which are checked like Volcano does."""
SERVER: Final = Options(has_defaults=True, current=True)
"""For pods, which are checked like the current API server does."""
