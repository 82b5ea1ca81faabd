"""The papers' experiments, run by `edgestill experiment`: see docs/experiments.md.

A module here with an `EXPERIMENT` is an experiment; `feddf/toy.py` is called `feddf-toy`. No registration is needed:
`fleet/experiments/base.py` defines the parts of an experiment.
"""
