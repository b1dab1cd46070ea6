"""Simulated nodes: they register with any API server, run the pods that are bound to them and tell how those fare.

`lifecycle` decides what a pod does next from values alone; `simulated` and `processes` run containers; `service` does the I/O.
"""
