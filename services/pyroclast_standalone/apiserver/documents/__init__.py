"""Functions on API documents: pure, synchronous functions on JSON values, without HTTP and storage.

They are separate from the server, because each of them is a rule of the Kubernetes API that values alone can describe and test.
"""
