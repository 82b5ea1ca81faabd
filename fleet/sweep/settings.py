"""Settings of a sweep's run as the command line of `edgestill simulate`."""

from __future__ import annotations

from fleet.simulation.settings.table import SETTINGS
from fleet.simulation.settings.text_forms import pairs
from fleet.sweep.grid import Settings

__all__ = ["flags_of"]


def flags_of(settings: Settings) -> list[str]:
    """The flags of these settings."""
    words: list[str] = []
    for key, value in settings.items():
        setting = SETTINGS[key]
        if setting.kind is dict:
            words += [f"{setting.flag}={pair}" for pair in pairs(key, value)]
        elif setting.kind is tuple:
            words += [f"{setting.flag}={part}" for part in value]
        elif setting.kind is bool:
            words += [setting.flag] if value else []
        else:
            words.append(f"{setting.flag}={value}")  # one argument: a value may start with a dash
    return words
