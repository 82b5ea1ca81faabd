"""Commands of the aggregator and of agents: serve, rounds, status, models, devices."""
