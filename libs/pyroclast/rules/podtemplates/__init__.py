"""Rules of a pod template: what a real API server would say of a pod made from it.

Every function appends to a list of errors; paths start at `template`. Defaults are not written into a copy: where a check
reads a field, it reads the default that the API server would have put there.
"""

from __future__ import annotations

from pyroclast.rules.podtemplates.template import check_template

__all__ = ["check_template"]
