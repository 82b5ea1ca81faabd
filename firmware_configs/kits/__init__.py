"""Kits: everything that one board needs, signed: the format, each file that goes in, and whose kits are revoked."""
