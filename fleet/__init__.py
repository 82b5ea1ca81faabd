"""The simulated fleet: datasets, partitions, simulation, run files and figures."""
