"""Settings of a simulation: the annotations of its fields, the flat table that users write, and its conversion into a
checked `SimulationConfig` (`fleet/simulation/config.py`). Flags, files, variables and sweeps enter here. No torch.
"""
