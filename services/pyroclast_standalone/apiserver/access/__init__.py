"""Authentication, authorization and audit: tokens, certificates, RBAC, and the audit log."""
