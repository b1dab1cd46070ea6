"""The controller of NodeShards, which distribute nodes among schedulers."""
