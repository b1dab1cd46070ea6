"""What torchrun starts: here each process only tells who it is. Put your training in its place."""

import os

print("rank", os.environ.get("RANK", "0"), "of", os.environ.get("WORLD_SIZE", "1"))
