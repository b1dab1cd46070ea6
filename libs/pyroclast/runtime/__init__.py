"""The runtime of a service: settings, logs, traces, metrics, health checks, supervision, TLS."""
