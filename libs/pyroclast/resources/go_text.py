"""Values in the form in which Go prints them in the API's messages."""

from __future__ import annotations

from typing import Final

_ESCAPES: Final = {
    **{character: f"\\{name}" for character, name in zip("\a\b\f\n\r\t\v", "abfnrtv", strict=True)},
    '"': '\\"',
    "\\": "\\\\",
}


def go_quote(text: str) -> str:
    """Return `text` in double quotes, escaped like Go's %q."""
    if text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return f'"{"".join(map(_escaped, text))}"'


def _escaped(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character.isprintable():
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x80 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def go_value(value: object) -> str:
    """Return a value in the form of Go's %v: `map[a:1 b:[x y]]`."""
    match value:
        case bool():
            return "true" if value else "false"
        case dict():
            return "map[" + " ".join(f"{name}:{go_value(value[name])}" for name in sorted(value)) + "]"
        case list():
            return "[" + " ".join(map(go_value, value)) + "]"
        case None:
            return "<nil>"
        case float() if value.is_integer() and abs(value) < 1e21:
            return str(int(value))
        case _:
            return str(value)


def go_kind(value: object) -> str:
    """Return the kind of a JSON value, in the words of decoding errors."""
    match value:
        case bool():
            return "bool"
        case str():
            return "string"
        case int() | float():
            return "number"
        case dict():
            return "object"
        case None:
            return "null"
        case _:
            return "array"
