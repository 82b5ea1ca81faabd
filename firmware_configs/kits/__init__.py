"""Kits: all files that one board needs, signed: the format, the contents, and revocation."""
