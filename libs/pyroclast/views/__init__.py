"""What people are shown of Jobs, queues, nodes and flows; pure, shared by the command line and the board."""
