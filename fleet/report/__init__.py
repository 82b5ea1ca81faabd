"""Reports of runs: one HTML file that needs no network, and a PNG per figure."""
