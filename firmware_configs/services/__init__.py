"""Services of systemd on the aggregator's machine: their units, how they are installed and taken away."""
