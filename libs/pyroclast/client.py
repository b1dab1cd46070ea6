"""`import pyroclast.client as pc`: the Python client, where the distribution `pyroclast-client` is installed."""

import sys

import pyroclast_client
from pyroclast_client import *  # noqa: F403 - for those who read types; the next line makes both names one module

sys.modules[__name__] = pyroclast_client
