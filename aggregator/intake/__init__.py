"""From a chunk to an accepted update: access control, rate limits, transfers, checks, and the answer.

All messages of devices pass here and can be refused here. Imports `aggregator/storage`, no torch.
"""
