"""Rules of pods and of templates of pods: what a real API server would say of one.

Every function appends to a list of errors. `options` tells whose pods they are: ADMISSION judges templates of tasks, before
defaults are filled in and as Volcano does; SERVER judges pods as the current API server does.
"""

from __future__ import annotations

from pyroclast.rules.podspecs.options import ADMISSION, SERVER, Options
from pyroclast.rules.podspecs.pod import check_new_pod, check_pod
from pyroclast.rules.podspecs.template import check_template

__all__ = ["ADMISSION", "SERVER", "Options", "check_new_pod", "check_pod", "check_template"]
