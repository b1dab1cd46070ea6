"""Runs `vcctl` as `python -m pyroclast_cli`."""

from __future__ import annotations

import sys

from pyroclast_cli.programs import vcctl

if __name__ == "__main__":
    sys.exit(vcctl())
