"""The pages: turn the board's copy of the cluster and the viewer's rights into sections of HTML."""
