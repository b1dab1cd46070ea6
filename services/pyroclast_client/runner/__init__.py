"""What runs in a pod: travels as source, knows only the standard library, and runs on Python 3.9 and newer."""
