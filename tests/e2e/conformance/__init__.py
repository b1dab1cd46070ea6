"""Differential conformance: the same requests to a real kube-apiserver and to ours must be answered the same."""
