"""Rules of pods and pod templates, like those of an API server.

Every function appends to a list of errors. With the options ADMISSION, the functions check templates of tasks before their
defaults are set, like Volcano. With SERVER, they check pods like the current API server.
"""

from __future__ import annotations

from pyroclast.rules.podspecs.options import ADMISSION, SERVER, Options
from pyroclast.rules.podspecs.spec import check_new_pod, check_pod, check_template

__all__ = ["ADMISSION", "SERVER", "Options", "check_new_pod", "check_pod", "check_template"]
