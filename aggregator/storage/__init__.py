"""What the aggregator keeps: journal, blobs, sealed artifacts, the registry of models, backups.

Knows nothing of messages, rounds or fusion.
"""
