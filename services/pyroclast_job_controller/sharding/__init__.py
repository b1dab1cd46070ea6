"""NodeShards: nodes divided among schedulers."""
