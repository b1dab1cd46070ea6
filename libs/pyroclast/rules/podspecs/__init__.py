"""Rules of pods and pod templates: with the options ADMISSION like Volcano's, with SERVER like the current API server's."""

from __future__ import annotations

from pyroclast.rules.podspecs.options import ADMISSION, SERVER, Options
from pyroclast.rules.podspecs.spec import check_new_pod, check_pod, check_template

__all__ = ["ADMISSION", "SERVER", "Options", "check_new_pod", "check_pod", "check_template"]
