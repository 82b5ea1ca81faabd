"""What every package may use, and nothing of it is specific to the wire format: errors, files, seeds, logs,
configuration keys, limits, child processes.

Imports the standard library alone (and tomli before Python 3.11). Nothing here knows a message, a model or a device.
"""
