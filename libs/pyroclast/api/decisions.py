"""What the condition `Scheduled` of a traced PodGroup tells of the session that placed the gang."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

__all__ = ["Decision", "parse", "written"]

_TEXT: Final = re.compile(r"session (?P<session>\S+) tried (?P<nodes>\d+) nodes")


class Decision(NamedTuple):
    """That a gang was placed: by which scheduling session, and among how many nodes."""

    session: str
    nodes: int


def written(decision: Decision) -> str:
    """The message of the condition."""
    return f"session {decision.session} tried {decision.nodes} nodes"


def parse(message: str) -> Decision | None:
    """The decision of a message; None where it tells of none."""
    found = _TEXT.fullmatch(message)
    return Decision(found["session"], int(found["nodes"])) if found else None
