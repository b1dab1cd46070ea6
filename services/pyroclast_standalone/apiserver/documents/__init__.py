"""Functions on API documents: pure, synchronous functions on JSON values, without HTTP and storage.

The functions are separate from the server, because values alone can describe and test each of these API rules.
"""
