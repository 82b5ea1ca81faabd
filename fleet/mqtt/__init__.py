"""The simulated fleet with real processes: a broker, an aggregator and agents on this machine."""
