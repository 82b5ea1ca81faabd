"""Rounds without I/O: events in, actions out, time as an argument.

`engine` has the state table, `buffered` that of asynchronous rounds, `state` what both share; `sampling` draws devices;
`restore` reads a round back from the journal.
"""
