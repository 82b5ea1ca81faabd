"""The typed arguments are the settings."""

from typing import get_type_hints

from edgestill.api.typed import SimulateSettings
from fleet.simulation.settings.table import SETTINGS


def test_every_setting_is_typed_and_nothing_else() -> None:
    assert set(get_type_hints(SimulateSettings)) == set(SETTINGS)
