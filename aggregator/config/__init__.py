"""fleet.toml as values: the fleet, its tables, and `[fusion]`. Imports no torch."""
