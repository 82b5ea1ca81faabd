"""A simulated fleet on one machine: devices, rounds, the aggregator's data, checkpoints.

The engines (`fleet/engines`) decide where devices train; training, encoding and fusion are the product's own code.
"""
