"""The command `vcctl ui`: the lists of `vcctl` on a full screen. Only `app` imports Textual, which is an extra."""

from __future__ import annotations

import importlib.util
import sys
from typing import Final

from pyroclast_cli.flags import Context, Failure
from pyroclast_cli.servers import BOARD, RECORDER
from pyroclast_cli.tree import OwnLeaf
from pyroclast_cli.views.scope import SCOPE_FLAGS


async def _ui(context: Context) -> None:
    if importlib.util.find_spec("textual") is None:
        raise Failure("Textual is not installed: pip install 'pyroclast-cli[ui]'")
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise Failure("there is no terminal; `vcctl waiting -w` writes to pipes and files")
    from pyroclast_cli.ui.app import Explorer  # noqa: PLC0415 - imports Textual

    await Explorer(context).run_async()


UI: Final = OwnLeaf("ui", "show Jobs, queues and nodes as a full screen", _ui, (*SCOPE_FLAGS, BOARD, RECORDER))
