"""The process shell: settings, logs, traces, metrics, health, supervision, TLS."""
