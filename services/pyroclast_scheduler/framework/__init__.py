"""Session, statement, extension points and their combination rules, the configuration file."""
