"""The message of the condition `Scheduled` on a traced PodGroup, which names the session that placed the gang."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_TEXT: Final = re.compile(r"session (?P<session>\S+) tried (?P<nodes>\d+) nodes")


class Decision(NamedTuple):
    """The placement of a gang: the scheduling session, and the number of nodes that the session evaluated."""

    session: str
    nodes: int


def written(decision: Decision) -> str:
    """Return the decision as the message of a condition."""
    return f"session {decision.session} tried {decision.nodes} nodes"


def parse(message: str) -> Decision | None:
    """Return the decision in the message of a condition; None when the message contains no decision."""
    found = _TEXT.fullmatch(message)
    return Decision(found["session"], int(found["nodes"])) if found else None
