"""Simulated adversarial devices: the built-in ones, and those of users by entry point."""
