"""What the scheduler knows, as values.

Facts (`JobFacts`, `TaskFacts`, `QueueFacts`) never change and are shared by all sessions; `Job`, `Task` and `Queue` are their
places in one session. A job is always a PodGroup with its pods. Columns and features hold the nodes; a shape is what equal pods
have in common.
"""
