"""What the scheduler knows of pods, PodGroups, queues and resources: frozen values, no behaviour of a session."""
