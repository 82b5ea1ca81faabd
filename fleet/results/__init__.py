"""What a run leaves: `run.json`, curves, the picture of its partition, suspicious and lost devices."""
