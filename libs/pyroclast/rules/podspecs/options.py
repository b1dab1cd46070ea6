"""What differs between the pods that an API server checks itself and the templates that admission checks as Volcano does.

Volcano is built with an older library, and sees templates to which no defaults have been added.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["ADMISSION", "SERVER", "Options"]


@dataclass(frozen=True, slots=True)
class Options:
    """How a pod is judged.

    Attributes:
        has_defaults: Whether defaults were filled in, so that nothing may be absent that has one.
        current: Whether it is judged as by the current API server, which takes more forms and names more faults.
        pod_level_resources: Whether pods as a whole may have resources.
        pod_name: That of the pod, None for a template.
    """

    has_defaults: bool
    current: bool
    pod_level_resources: bool = True
    pod_name: str | None = None


ADMISSION: Final = Options(has_defaults=False, current=False)
"""Templates of tasks, as Volcano judges them."""
SERVER: Final = Options(has_defaults=True, current=True)
"""Pods, as the current API server judges them."""
