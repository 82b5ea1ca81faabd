"""Datasets that a program gives: arrays, torch's and Hugging Face's datasets, partitioners. Imports none of them."""

from __future__ import annotations

from fleet.data.given.hub import HUB, hub_dataset
from fleet.data.given.own import data_name, own_data
from fleet.data.given.partitioners import is_partitioner, partition_of

__all__ = ["HUB", "data_name", "hub_dataset", "is_partitioner", "own_data", "partition_of"]
