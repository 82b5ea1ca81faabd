"""The mathematics on one device: parameters of local training, SGD, schedules, clipping.

The simulated fleet trains with the same functions. Independent of network and state folder.
"""
