"""The versions of the installed packages that a function uses. The pod compares them before it unpickles the function."""

from __future__ import annotations

import importlib.metadata
import pickletools
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Final

CARRIED: Final = frozenset({"cloudpickle", "pyroclast", "pyroclast_client"})  # the runner contains these packages
MOST_BYTES: Final = 256 << 10  # larger pickles are not searched: most of their content is data


def used_packages(pickles: Iterable[bytes]) -> dict[str, str]:
    """Return the versions of the distributions whose modules the pickles name."""
    found = {name.partition(".")[0] for each in pickles if len(each) <= MOST_BYTES for name in _names(each)}
    tops = {top for top in found if top in sys.modules and top not in sys.stdlib_module_names | CARRIED}
    if not tops:
        return {}
    known = _distributions()
    return {name: importlib.metadata.version(name) for top in sorted(tops) for name in known.get(top, ())}


def _names(pickle: bytes) -> Iterable[str]:
    """Return the strings in a pickle, which include the names of modules."""
    return [argument for _, argument, _ in pickletools.genops(pickle) if isinstance(argument, str)]


@cache
def _distributions() -> Mapping[str, Sequence[str]]:
    return importlib.metadata.packages_distributions()
