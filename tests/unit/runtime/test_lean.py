"""What programs load: what lean loading leaves out is there when it is asked for, and nothing else comes in by mistake."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from pyroclast.lean import COLLECTIONS

AUTHORITIES = """
import ssl
from pyroclast import lean
lean.prepare()
from aiohttp import connector
from pyroclast.lean import TrustsWhenUsed
contexts = [each for each in vars(connector).values() if isinstance(each, TrustsWhenUsed)]
before = [len(each.get_ca_certs()) for each in contexts]
for each in contexts:
    each.wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), server_hostname="localhost")
usual = len(ssl.create_default_context().get_ca_certs())
print(before, [len(each.get_ca_certs()) - usual for each in contexts], {type(each) for each in contexts} == {ssl.SSLContext})
print([each.verify_mode.name for each in contexts], vars(ssl.SSLContext).get("set_default_verify_paths"))
import rich
"""

LOADED = """
import atexit, gc, json, os, sys

def tell():  # the last to be asked at the end, as the first to want to be
    threads = len(os.listdir("/proc/self/task")) if os.path.exists("/proc/self/task") else 1
    print(json.dumps([modules, gc.get_threshold(), collections, gc.get_freeze_count(), threads]))

atexit.register(tell)
import {program}.__main__
modules, collections = sorted(sys.modules), [each["collections"] for each in gc.get_stats()]
"""

EVERYWHERE = ("cryptography", "google.protobuf", "kubernetes_asyncio", "opentelemetry", "rich", "uvloop")
"""What no program needs before its work begins, and most never."""
BESIDES = {
    "pyroclast_admission": ("numpy", "sqlite3", "yaml"),
    "pyroclast_job_controller": ("aiohttp.web", "numpy", "sqlite3", "yaml"),
    "pyroclast_jobflow_controller": ("aiohttp.web", "numpy", "sqlite3", "yaml"),
    "pyroclast_scheduler": ("aiohttp.web", "sqlite3"),
    "pyroclast_standalone": ("aiohttp.web", "numpy", "prometheus_client", "sqlite3"),
    "pyroclast_standalone.apiserver": ("numpy", "prometheus_client", "pydantic", "structlog"),
    "pyroclast_standalone.nodes": ("numpy", "sqlite3", "yaml"),
}


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_system_ca_certificates_are_loaded_on_first_use() -> None:
    assert run(AUTHORITIES).splitlines() == ["[0, 0] [0, 0] True", "['CERT_REQUIRED', 'CERT_NONE'] None"]


@pytest.mark.parametrize("program", BESIDES)
def test_a_program_imports_no_unneeded_modules_and_rarely_collects_garbage(program: str) -> None:
    modules, thresholds, (young, _, full), frozen, threads = json.loads(run(LOADED.format(program=program)))
    assert set(modules).isdisjoint({*EVERYWHERE, *BESIDES[program]})
    assert tuple(thresholds) == COLLECTIONS
    assert young < 60  # more than a hundred, and a full one in most programs, when Python's thresholds hold
    assert full == 0
    assert frozen > 10_000  # all that there is when the process ends
    assert threads == 1


def test_importing_the_library_changes_neither_gc_thresholds_nor_ssl_defaults() -> None:
    code = """
import gc, ssl, sys
before = gc.get_threshold(), ssl.SSLContext.set_default_verify_paths
import pyroclast.lean, pyroclast.kube.watch.informer, pyroclast.runtime.service
print((gc.get_threshold(), ssl.SSLContext.set_default_verify_paths) == before, pyroclast.lean.TrustsWhenUsed in {
    type(each) for each in gc.get_objects() if isinstance(each, ssl.SSLContext)})
"""
    assert run(code).split() == ["True", "False"]
