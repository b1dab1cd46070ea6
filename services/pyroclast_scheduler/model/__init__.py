"""The state of the cluster on which the scheduler decides, as values.

`JobFacts`, `TaskFacts` and `QueueFacts` are immutable and shared by all sessions. `Job`, `Task` and `Queue` hold the state of the
same objects in one session. A job is always a PodGroup with its pods. The data of nodes are arrays: amounts (`Columns`) and
features. A shape holds the requests and constraints that equal pods share.
"""
