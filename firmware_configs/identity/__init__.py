"""The fleet's certificate authority, and the keys and certificates that it issues."""
