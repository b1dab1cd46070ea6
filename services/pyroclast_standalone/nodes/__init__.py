"""Simulated nodes: they register with any API server, run the pods that are bound to them, and write the statuses of these pods.

`lifecycle` decides the next actions of a pod from values alone. `simulated` and `processes` run containers. `service` does the
I/O.
"""
