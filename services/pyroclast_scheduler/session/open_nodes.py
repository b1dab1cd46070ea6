"""Which nodes a session may use: those that are ready, and of these the ones that belong to this scheduler."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pyroclast_scheduler.model.node_columns import Bools
from pyroclast_scheduler.session.ports import Shard

__all__ = ["OpenNodes"]


class OpenNodes:
    """Masks over the rows of the node table.

    `usable`: pods may be placed there. `preferred`: rather there than on the others, None where none is. `foreign`: those that
    another scheduler alone may use, None where there cannot be any.
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
