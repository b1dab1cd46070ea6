"""Importing the client costs next to nothing, and shows all public names."""

import json
import resource
import subprocess
import sys
from statistics import median

import pytest

import pyroclast.client as pc

HEAVY = {"aiohttp", "pydantic", "kubernetes_asyncio", "numpy", "yaml", "cloudpickle", "opentelemetry", "structlog", "asyncio"}
LOOK = """
import json, os, sys, threading
before = os.listdir("/proc/self/fd")
import pyroclast.client
print(json.dumps([sorted(sys.modules), threading.active_count(), before == os.listdir("/proc/self/fd")]))
"""
STARTS = 20


def test_importing_the_client_loads_no_heavy_modules_starts_no_thread_and_opens_no_file():
    done = subprocess.run([sys.executable, "-c", LOOK], capture_output=True, check=True)
    modules, threads, are_same_files = json.loads(done.stdout)
    assert not HEAVY & set(modules)
    assert threads == 1
    assert are_same_files


def test_importing_the_client_takes_less_than_200_ms_of_cpu_time():
    def work() -> float:
        """Seconds of a processor, which others that are at work beside do not make more."""
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

    def seconds(code: str) -> float:
        before = work()
        subprocess.run([sys.executable, "-c", code], check=True)
        return work() - before

    assert median(seconds("import pyroclast.client") for _ in range(STARTS)) < 0.2


def test_client_module_exposes_exactly_its_public_names():
    for name in pc.__all__:
        assert getattr(pc, name) is not None
    assert set(dir(pc)) == set(pc.__all__)
    with pytest.raises(AttributeError, match="no attribute 'jop'; it has"):
        pc.jop  # noqa: B018 - that is what is tried
