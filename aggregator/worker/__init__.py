"""The torch process, `python -m aggregator.worker`: fusion apart from the service, so that the service stays prompt.

`supervisor` is the service's side and imports no torch; the rest runs in the worker.
"""
