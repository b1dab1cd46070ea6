"""The program `python -m pyroclast_standalone.nodes`: simulated nodes for any API server."""

from __future__ import annotations

from pyroclast import lean

lean.prepare()

import sys

from pyroclast.runtime.service import run_service
from pyroclast.runtime.settings import parse
from pyroclast_standalone.nodes.service import NodesSettings, run


def main() -> int:
    """Run the service. Return the exit status."""
    settings = parse(NodesSettings, sys.argv[1:], "pyroclast-nodes")
    return run_service("nodes", settings, run)


if __name__ == "__main__":
    sys.exit(main())
