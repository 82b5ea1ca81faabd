"""The server side: fusion parts and recipes, the aggregator's side of the protocol."""
