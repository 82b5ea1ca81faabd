"""Observation of the service: why it waits, its metrics for Prometheus, its health.

Everything here reads: the journal by connections of its own, and the state that the service shares once a second.
"""
