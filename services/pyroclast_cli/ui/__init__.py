"""The command `vcctl ui`: the lists of `vcctl` on a full screen. Only `app` and `texts` import Textual, which is an extra."""
