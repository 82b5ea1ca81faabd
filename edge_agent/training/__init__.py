"""The mathematics on one device: parameters of local training, SGD, schedules, clipping.

The simulated fleet trains with the same functions. Knows no network and no folder of an agent.
"""
