"""The scheduler once more, as plainly as its rules can be written: objects, loops, fractions, nothing kept by increments.

It shares no code with the engine and is slow on purpose. It reads the tables of `tests/scenarios`, so that each random cluster
on which the two disagree is a scenario at once. `generator` makes clusters, `compare` decides them twice.
"""
