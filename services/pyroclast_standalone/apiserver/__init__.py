"""The embedded, Kubernetes-compatible API server.

Every refusal is a `StatusError` of `requests.status`, with code and message. Functions on documents do not know it. They raise a
`DocumentError` of `documents.errors`, which becomes one.
"""
