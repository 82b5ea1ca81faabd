"""A simulated fleet on one machine: devices, rounds, the server's side, checkpoints.

The engines (`fleet/engines`) decide where devices train; everything else is the product's own code.
"""
