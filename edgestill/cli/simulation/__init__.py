"""Commands of the simulated fleet: simulate, sweep, report, experiment, data."""
