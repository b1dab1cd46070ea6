"""Applies the rules of webhooks in process to the objects that Pyroclast's controllers create.

A webhook call costs the API server as much as the write itself. The webhooks skip objects that an account of Pyroclast creates
with a field manager (the option `fieldManager`). A program sets a field manager only after it has applied the rules. So the
webhooks still check the objects of a release that does not apply the rules itself.
"""
