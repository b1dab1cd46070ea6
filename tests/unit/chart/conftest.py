"""The helm that the tests of the chart use: from the path, or built before; it is not built for them."""

import shutil
from pathlib import Path

import pytest

from tests.control_plane.build import missing
from tests.unit.chart import render


@pytest.fixture(scope="session")
def helm() -> Path:
    if shutil.which("helm") is None and missing(["helm"]):
        pytest.skip("there is no helm; `make control-plane` builds it")
    found = render.find_helm()
    assert found is not None
    return found
