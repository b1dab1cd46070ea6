"""The wire forms of built-in kinds: for each message its fields with number, type and whether an empty value is left out.

Separate from the OpenAPI definitions, which do not tell these: protobuf bodies need the numbers, and what the API makes of an
empty text, a zero or a null depends on them. `python -m tests.unit.apiserver_documents.wire_table DIR…` writes the table
anew from the declarations of the API types; it is loaded when first asked for.
"""

from .table import Field, Message, message_of, messages

__all__ = ["Field", "Message", "message_of", "messages"]
