"""Importing the client costs next to nothing, and shows all public names."""

import json
import resource
import subprocess
import sys

import pytest

import pyroclast.client as pc

HEAVY = {"aiohttp", "pydantic", "kubernetes_asyncio", "numpy", "yaml", "cloudpickle", "opentelemetry", "structlog", "asyncio"}
LOOK = """
import sys
import pyroclast_client
import json, threading, os
print(json.dumps([sorted(sys.modules), threading.active_count(), len(os.listdir("/proc/self/fd"))]))
"""


def test_importing_loads_nothing_heavy_and_opens_nothing():
    modules, threads, _ = json.loads(subprocess.run([sys.executable, "-c", LOOK], capture_output=True, check=True).stdout)
    assert not HEAVY & set(modules)
    assert threads == 1


def test_importing_takes_less_than_a_fifth_of_a_second():
    def work() -> float:
        """Seconds of a processor, which others that are at work beside do not make more."""
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

    def seconds(code: str) -> float:
        before = work()
        subprocess.run([sys.executable, "-c", code], check=True)
        return work() - before

    assert min(seconds("import pyroclast_client") for _ in range(5)) - min(seconds("") for _ in range(5)) < 0.2


def test_every_public_name_is_there_and_no_other():
    for name in pc.__all__:
        assert getattr(pc, name) is not None
    assert set(dir(pc)) == set(pc.__all__)
    with pytest.raises(AttributeError, match="no attribute 'jop'; it has"):
        pc.jop  # noqa: B018 - that is what is tried
