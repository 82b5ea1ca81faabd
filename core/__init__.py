"""Utilities for all packages, independent of the wire format: errors, files, seeds, logs, configuration keys, limits,
child processes.

Imports only the standard library (and tomli before Python 3.11). Nothing here depends on messages, models or devices.
"""
