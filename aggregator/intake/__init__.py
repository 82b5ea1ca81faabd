"""From a chunk to an accepted update: who may speak, how much, transfers, checks, and the answer.

Everything that a device sends passes here and can be refused here. Imports `aggregator/storage`, no torch.
"""
