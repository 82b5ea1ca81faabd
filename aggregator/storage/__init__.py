"""Persistent state of the aggregator: journal, blobs, sealed artifacts, the registry of models, backups.

Independent of messages, rounds and fusion.
"""
