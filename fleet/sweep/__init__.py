"""Sweeps: a grid of simulations, run in parallel and resumable, with means over seeds."""
