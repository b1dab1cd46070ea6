"""What objects tell, as rows. Pure."""
