"""Sweeps: a grid of simulations, run side by side, gone on with after a break, and their means over seeds."""
