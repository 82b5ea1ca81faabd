"""Experiment trackers: the figures of every round of a run or a fleet, for TensorBoard, MLflow or a user's own.

    targets.py     `KIND:WHERE`, and the trackers by kind, users' own by entry point
    records.py     what is tracked: the settings of a run, and a record of every round
    follower.py    a thread per tracker that follows the records of a run

A tracker follows records that exist anyway (`run.json`, the journal), so there is no queue that could overflow: one
that was away is brought up to date when it is back. Nothing waits for a tracker, and none ends a run.
"""
