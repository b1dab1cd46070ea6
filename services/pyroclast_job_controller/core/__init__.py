"""The decisions of the controllers in this process, without I/O. The decisions about Jobs are in `pyroclast.lifecycle`."""
