"""`vcctl ui`: the lists of `vcctl` as a full screen. Only `app` and `texts` load Textual, which is an extra."""
