"""What somebody with a stolen token of one of our ServiceAccounts tries, and what the policy of the account answers.

The tests of the chart evaluate the policies on the rows, the end-to-end tests send them to a real API server, and a page of the
reference lists them.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

Object = dict[str, Any]
UID: Final = "12345678-1234-1234-1234-123456789abc"
"""The UID of the Job that the rows name as an owner."""
FLOW_UID: Final = "22345678-1234-1234-1234-123456789abc"
"""The UID of the JobFlow that the rows name as an owner."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """A request of `account`: a creation of `new`, a deletion of `old`, or a merge `patch` of `old`.

    `want`: a part of the refusal; empty where the request is allowed. `namespace`: empty for one of a user.
    """

    account: str
    words: str
    resource: str
    want: str = ""
    new: Object | None = None
    old: Object | None = None
    patch: Object | None = None
    namespace: str = ""

    @property
    def operation(self) -> str:
        """The operation, as admission names it."""
        return "CREATE" if self.old is None else "DELETE" if self.patch is None else "UPDATE"

    def after(self) -> Object | None:
        """The object after the request."""
        return self.new if self.patch is None or self.old is None else merged(self.old, self.patch)


def merged(old: Object, patch: Object) -> Object:
    """Return a merge patch applied to `old`."""
    found = copy.deepcopy(old)
    for name, value in patch.items():
        if value is None:
            found.pop(name, None)
        else:
            found[name] = merged(found.get(name) or {}, value) if isinstance(value, dict) else value
    return found


def _attempts() -> list[Attempt]:
    document = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text())

    def meant(reference: str | list[Any]) -> Object:
        name, patch = (reference, {}) if isinstance(reference, str) else reference
        return merged(document["objects"][name], patch)

    return [Attempt(**row | {key: meant(row[key]) for key in ("new", "old") if key in row}) for row in document["attempts"]]


ATTEMPTS: Final = _attempts()
