"""The command `vcctl version`: the six lines of Volcano, with the version of Python in place of Go's."""

from __future__ import annotations

import platform
from importlib import metadata
from typing import Final

from pyroclast_cli.context import Context
from pyroclast_cli.tree import Leaf

NOT_PROVIDED: Final = "Not provided."


async def _version(context: Context) -> None:
    context.say("API Version: v1alpha1")
    context.say(f"Version: {metadata.version('pyroclast-cli')}")
    context.say(f"Git SHA: {NOT_PROVIDED}")
    context.say(f"Built At: {NOT_PROVIDED}")
    context.say(f"Python Version: {platform.python_version()}")
    context.say(f"Python OS/Arch: {platform.system().lower()}/{platform.machine()}")


VERSION: Final = Leaf("version", "Print the version information", _version, failure=" version", needs_cluster=False)
