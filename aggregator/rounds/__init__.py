"""Rounds without I/O: events in, actions out, time as an argument.

`engine` has the state table; `sampling` invites devices; `restore` reads a round back from the journal.
"""
