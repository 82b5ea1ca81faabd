"""The server side: fusion parts and recipes, the aggregator's half of a round."""
