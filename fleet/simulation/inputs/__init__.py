"""Samples of a simulation: the kind a prototype takes, the server's labelled and unlabeled ones, the devices' rest.

Datasets come from `fleet/data/`, the devices' shares from `fleet/partition/`.
"""
