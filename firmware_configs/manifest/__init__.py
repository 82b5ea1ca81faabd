"""The fleet manifest: the tables [provision] and [[group]] of fleet.toml, resolved to every device's settings.

May enter: what reads, checks and describes a manifest. What is made of it is in the rooms beside.
"""

from firmware_configs.manifest.load import load_manifest
from firmware_configs.manifest.plan import DevicePlan, FirstModels, Manifest
from firmware_configs.manifest.tables import certificate_days, kits_folder, read_boards_dir

__all__ = [
    "DevicePlan",
    "FirstModels",
    "Manifest",
    "certificate_days",
    "kits_folder",
    "load_manifest",
    "read_boards_dir",
]
