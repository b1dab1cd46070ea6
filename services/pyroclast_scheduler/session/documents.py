"""A YAML loader with the rules of Volcano's parser: scalar types, the first of several documents, and line numbers."""

from __future__ import annotations

import re
from typing import Any, Final

import yaml

_REPLACED: Final = {f"tag:yaml.org,2002:{kind}" for kind in ("int", "float", "timestamp")}
_INTEGER: Final = re.compile(r"^[-+]?(?:0b[01_]+|0x[0-9a-fA-F_]+|0o?[0-7_]*|[1-9][0-9_]*)$")
_FLOAT: Final = re.compile(
    r"^(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$"
)


class BadDocument(ValueError):
    """The text is not YAML. `line`: the line number from 1, 0 if unknown."""

    def __init__(self, reason: str, line: int) -> None:
        super().__init__(reason)
        self.line = line


class _Loader(yaml.SafeLoader):
    """A loader that reads dates and base-60 numbers as text, and accepts an exponent without a decimal point."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - an attribute of the base class
        first: [(tag, pattern) for tag, pattern in listed if tag not in _REPLACED]
        for first, listed in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


_Loader.add_implicit_resolver("tag:yaml.org,2002:int", _INTEGER, list("-+0123456789"))
_Loader.add_implicit_resolver("tag:yaml.org,2002:float", _FLOAT, list("-+.0123456789"))


class LineNumbers:
    """The line numbers of the nodes of a YAML document, by path."""

    def __init__(self, root: yaml.Node | None) -> None:
        self._root = root

    def of_key(self, key: object) -> int:
        """Return the line of a top-level key, 0 if unknown."""
        pairs = self._root.value if isinstance(self._root, yaml.MappingNode) else ()
        return next((name.start_mark.line + 1 for name, _ in pairs if name.value == str(key)), 0)

    def of(self, *path: str | int) -> int:
        """Return the line of the node at `path`, or of its nearest ancestor that exists; 0 if there is no document."""
        node = self._root
        for step in path:
            if isinstance(node, yaml.MappingNode):
                node = next((value for key, value in node.value if getattr(key, "value", None) == step), node)
            elif isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
                node = node.value[step]
        return node.start_mark.line + 1 if node is not None else 0


def load(text: str) -> tuple[Any, LineNumbers, int]:
    """Return the first document, its line numbers, and the number of its last line.

    The number is 0 unless another document follows.

    Raises:
        BadDocument: the text is not YAML.
    """
    try:
        loader = _Loader(text)
        try:
            root = loader.get_node() if loader.check_node() else None
            document = None if root is None else loader.construct_document(root)
            is_more = root is not None and loader.check_node()
        finally:
            loader.dispose()
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        reason = str(getattr(error, "problem", None) or error)
        raise BadDocument(reason, mark.line + 1 if mark is not None else 0) from error
    except (RecursionError, ValueError) as error:
        raise BadDocument(f"nested too deeply, or a value that cannot be: {error}", 0) from error
    return document, LineNumbers(root), root.end_mark.line if root is not None and is_more else 0
