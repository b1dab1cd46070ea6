"""All code of the scheduler that does I/O: informers, loop, binder, writers, metrics, configuration file."""
