"""Virtual time: how long a fleet of boards would take, without waiting for it.

hardware.py      what a board can do, and what a round costs it in seconds and joules
work.py          what training asks of a board, in floating-point operations
availability.py  when devices are there: always, by chance, or as a trace file says
rounds.py        rounds with a deadline and a quorum, by the aggregator's own round engine
buffered.py      asynchronous rounds: fuse when so many updates are in (FedBuff)
"""
