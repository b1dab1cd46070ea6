"""What users see of Jobs, queues, nodes and flows; pure, and shared by the command line and the board."""
