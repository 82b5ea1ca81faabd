"""Experiments with the recipe `edgestill`."""
