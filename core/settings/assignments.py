"""`--set table.key=value` of the services' commands, as environment variables: the same checks, and the same layer."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from core.errors import ConfigError, did_you_mean

__all__ = ["assignments"]


def assignments(
    settings: Iterable[str], tables: Mapping[str, Collection[str]], prefixes: Mapping[str, str], *, example: str
) -> dict[str, str]:
    """Each setting as a variable with the prefix of its table; `tables` has the keys of each.

    >>> assignments(["round.rounds=3"], {"round": ["rounds"]}, {"round": "FLEET_ROUND"}, example="round.rounds=3")
    {'FLEET_ROUND_ROUNDS': '3'}
    """
    variables = {}
    for text in settings:
        name, equals, value = text.partition("=")
        table, dot, key = name.strip().partition(".")
        if not (equals and dot):
            raise ConfigError(f"--set {text!r}: write it as table.key=value, such as {example}")
        if table not in tables:
            raise ConfigError(f"--set {text!r}: no table [{table}]{did_you_mean(table, tables)}")
        if key not in tables[table]:
            raise ConfigError(f"--set {text!r}: no key {key!r} in [{table}]{did_you_mean(key, tables[table])}")
        variables[f"{prefixes[table]}_{key.upper()}"] = value.strip()
    return variables
