"""The nodes that a session may use: the ready nodes, limited to the NodeShard of this scheduler."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pyroclast_scheduler.model.node_columns import Bools
from pyroclast_scheduler.session.ports import Shard


class OpenNodes:
    """Masks over the rows of the node table.

    Attributes:
        usable: nodes on which pods may be placed.
        preferred: nodes that are preferred to other usable ones; None without a preference.
        foreign: ready nodes that only another scheduler may use; None if there can be none.
    """

    def __init__(self, is_ready: Bools, names: Sequence[str], shard: Shard | None) -> None:
        self.usable: Bools = is_ready.copy()
        self.preferred: Bools | None = None
        self.foreign: Bools | None = None
        if shard is None:
            return
        own = np.fromiter((name in shard.nodes for name in names), dtype=np.bool_, count=len(names))
        if shard.is_hard:
            self.foreign = self.usable & ~own
            self.usable &= own
        else:
            self.preferred = own
