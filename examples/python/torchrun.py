"""A script by torchrun on two nodes, with two processes on each."""

import pathlib

import pyroclast.client as pc

script = pathlib.Path(__file__).with_name("train.py")
pc.torchrun(script, nodes=2, per_node=2).wait()
