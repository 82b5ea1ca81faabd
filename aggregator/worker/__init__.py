"""The torch process, `python -m aggregator.worker`: fusion is separate from the service, which stays responsive.

`supervisor` is the service's side and imports no torch; the rest runs in the worker.
"""
