"""Settings of a simulation: how its fields are annotated, the flat table that users write, and the way from there to a
checked `SimulationConfig` (`fleet/simulation/config.py`). Flags, files, variables and sweeps enter here. No torch.
"""
