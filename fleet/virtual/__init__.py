"""Virtual time: simulates how long a fleet of boards would take, without waiting for it.

hardware.py      speed and power of boards; the cost of a round in seconds and joules
work.py          the cost of training in floating-point operations
availability.py  when devices are available: always, at random, or by a trace file
rounds.py        rounds with a deadline and a quorum, by the aggregator's own round engine
buffered.py      asynchronous rounds: fuse when the buffer is full (FedBuff)
"""
