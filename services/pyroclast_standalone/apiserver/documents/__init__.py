"""What the API server does to documents: pure, synchronous functions on JSON values, free of HTTP and storage.

Separate from the server because each of them is a rule of the Kubernetes API that can be told, and tested, by values alone.
"""
