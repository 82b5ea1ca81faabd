"""Results of a run: `run.json`, curves, the plot of its partition, suspicious and lost devices."""
