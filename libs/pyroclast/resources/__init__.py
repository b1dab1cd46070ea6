"""Quantities, resource vectors, durations, schedules and other values of the API, pure."""
