"""The wire forms of built-in kinds: for each message its fields with number, type, and whether an empty value is omitted.

The OpenAPI definitions do not contain these facts. Protobuf bodies need the numbers, and the meaning of an empty text, a zero or
a null depends on the types. `python -m tests.unit.apiserver_documents.wire_table DIR…` generates the table from the declarations
of the API types. The table is loaded on first use.
"""

from pyroclast_standalone.apiserver.documents.wire.table import Field, Message, message_of, messages

__all__ = ["Field", "Message", "message_of", "messages"]
