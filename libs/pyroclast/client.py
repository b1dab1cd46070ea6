"""`import pyroclast.client as pc`: the Python client, where the distribution `pyroclast-client` is installed."""

import sys
from typing import TYPE_CHECKING

import pyroclast_client

if TYPE_CHECKING:
    from pyroclast_client import *  # noqa: F403 - run, it would load all of the client

sys.modules[__name__] = pyroclast_client
