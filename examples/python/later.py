"""A Job that was submitted before, by anybody: wait for it, read what it printed and what its function returned."""

import sys

import pyroclast.client as pc

job = pc.job(sys.argv[1]).wait()
print(job.logs())
print(job.result())
