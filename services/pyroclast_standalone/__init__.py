"""The embedded control plane and the program `pyroclast`.

A command that cannot do its work raises `CommandError`: one line with the object, the fault and the remedy.
"""
