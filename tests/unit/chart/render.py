"""Renders the chart with its default values into the package data that `pyroclast up` installs.

`python -m tests.unit.chart.render` writes the file anew. It takes helm from the path, or builds it from its Go modules.
"""

import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tests.control_plane.build import missing, program

ROOT = Path(__file__).parents[3]
CHART = ROOT / "charts" / "pyroclast"
RENDERED = ROOT / "services" / "pyroclast_standalone" / "data" / "manifests.yaml"
RELEASE = "pyroclast"
NAMESPACE = "pyroclast-system"
KUBERNETES_VERSION = "1.36.1"

_HEAD = f"""# Rendered from charts/pyroclast with default values by `python -m tests.unit.chart.render`; not edited by hand.
apiVersion: v1
kind: Namespace
metadata:
  name: {NAMESPACE}
"""


def find_helm() -> Path | None:
    """The helm on the path, else the one that was built for the tests."""
    if found := shutil.which("helm"):
        return Path(found)
    return None if missing(["helm"]) and not shutil.which("go") else program("helm")


def render(helm: Path, *options: str) -> str:
    """What `helm template` makes of the chart with `options`, such as `--set a=b`.

    Raises:
        subprocess.CalledProcessError: helm refuses, its `stderr` says why.
    """
    command = [str(helm), "template", RELEASE, str(CHART), "--namespace", NAMESPACE, "--kube-version", KUBERNETES_VERSION]
    return subprocess.run([*command, *options], check=True, capture_output=True, text=True).stdout


@cache
def documents(helm: Path, *options: str) -> tuple[dict[str, Any], ...]:
    """The objects that the chart makes with `options`; many tests look at the same ones, and none changes them."""
    return parsed(render(helm, *options))


def parsed(text: str) -> tuple[dict[str, Any], ...]:
    """The objects in a rendered text. Most of them, such as the CRDs, are in every text, so each is read once."""
    return tuple(each for document in re.split(r"^---$", text, flags=re.MULTILINE) if (each := _parsed(document)))


@cache
def _parsed(document: str) -> Any:
    return yaml.load(document, yaml.CSafeLoader)


def rendered(helm: Path) -> str:
    """The content of the package data."""
    return _HEAD + render(helm, "--no-hooks")


def main() -> None:
    """Write the package data."""
    helm = find_helm()
    if helm is None:
        sys.exit("there is neither helm on the path nor Go to build it with")
    RENDERED.write_text(rendered(helm))


if __name__ == "__main__":
    main()
