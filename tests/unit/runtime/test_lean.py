"""What lean loading leaves out is there when it is asked for."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import ssl
import pyroclast.runtime
from aiohttp import connector
from pyroclast.lean import TrustsWhenUsed
context = next(each for each in vars(connector).values() if isinstance(each, TrustsWhenUsed))
before = len(context.get_ca_certs())
context.wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), server_hostname="localhost")
usual = ssl.create_default_context()
print(before, len(context.get_ca_certs()) == len(usual.get_ca_certs()), type(context).__name__, context.verify_mode.name)
import rich
"""


def test_authorities_of_the_system_are_read_when_they_are_needed() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False)
    assert (done.stdout.split(), done.returncode) == (["0", "True", "SSLContext", "CERT_REQUIRED"], 0), done.stderr
