"""The project of each test is an empty folder: what this process has loaded of all tests would travel with each function."""

import pytest


@pytest.fixture(autouse=True)
def project(monkeypatch, tmp_path_factory):
    monkeypatch.chdir(tmp_path_factory.mktemp("project"))
