"""Reads fleet.toml again on SIGHUP, while the service runs.

    at once                  [devices], [limits], [log]
    from the next round on   [round], [train], [fusion], keep_rounds and history_rounds of [state]
    never                    the other tables: the new file is refused, and the old configuration stays

A file that cannot be used is refused in one line of the log. After a restart the file counts as it then is.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from aggregator.config.fleet import FleetConfig
from aggregator.rounds.events import Reloaded
from aggregator.rounds.restore import accuracies, rules_of
from aggregator.rounds.state import Phase
from aggregator.worker.setup import worker_setup
from core.errors import EdgestillError
from core.logs import setup_logging
from core.settings import replace

if TYPE_CHECKING:
    from aggregator.service import Service

__all__ = ["Reload", "fixed_changes"]

log = logging.getLogger("edgestill.aggregator")
#: What cannot change while the service runs: names for people, and fields.
FIXED = {
    "[fleet]": ("fleet", "seed"),
    "[broker]": ("broker",),
    "[state] dir": ("state",),
    "[state] key": ("key",),
    "[task]": ("task",),
    "[prototypes]": ("prototypes",),
    "[monitor]": ("monitor",),
    "[round] mode": ("mode",),
}


class Reload:
    """The reloads of one service; `read` reads the file as at its start, `done` is called with each that was used."""

    def __init__(self, read: Callable[[], FleetConfig], done: Callable[[FleetConfig], None]) -> None:
        self._read, self._done = read, done
        self._asked = False
        self._next: FleetConfig | None = None  # is used from the next round on

    def ask(self) -> None:
        """Read the file in the next pass; from a signal handler too."""
        self._asked = True

    def poll(self, service: Service) -> None:
        """One pass of the service, before a round may be opened."""
        if self._asked:
            self._asked = False
            self._reload(service)
        if self._next is not None and service.conductor.state.phase is Phase.WAITING:
            self._adopt(service, self._next)
            self._next = None

    def _reload(self, service: Service) -> None:
        try:
            new = self._read()
        except EdgestillError as error:
            log.error("reload refused, the configuration of before stays: %s", " ".join(str(error).split()))
            return
        fixed = fixed_changes(service.config, new)
        if fixed:
            why = f"{', '.join(fixed)} cannot change at run time; restart the aggregator"
            log.error("reload refused, the configuration of before stays: %s", why)
            return
        added = self._at_once(service, new)
        self._next = new
        later = "" if service.conductor.state.phase is Phase.WAITING else "; rounds and recipe from the next round on"
        log.info("%s was read again: %d devices, %d of them new%s", new.path, len(new.devices), added, later)
        self._done(new)

    def _at_once(self, service: Service, new: FleetConfig) -> int:
        """Devices, limits and logs; the number of new devices."""
        before = service.config
        added = sorted(new.devices.keys() - before.devices.keys())
        service.config = replace(before, devices=new.devices, limits=new.limits, log=new.log)
        service.conductor.config = replace(service.conductor.config, devices=new.devices, limits=new.limits)
        service.gate.use(new.devices, garbage_before_mute=new.limits.garbage_before_mute, mute_s=new.limits.mute_s)
        service.limiter.use(new.limits)
        service.inbox.use(service.config)
        service.states.fetch(added, service.now())
        if new.log != before.log:
            setup_logging(new.log.format, new.log.level, fleet=new.fleet)
        return len(added)

    def _adopt(self, service: Service, new: FleetConfig) -> None:
        """No round is open: the rest of the file."""
        conductor, before = service.conductor, service.config
        service.config = conductor.config = conductor.fusing.config = new
        service.inbox.use(new)
        conductor.feed(Reloaded(rules_of(new), frozenset(service.gate.known), accuracies(conductor.journal)))
        if worker_setup(new) != worker_setup(before):
            service.worker.use(worker_setup(new))


def fixed_changes(before: FleetConfig, new: FleetConfig) -> list[str]:
    """The tables and keys that differ and cannot change, by their names in the file."""
    return [name for name, keys in FIXED.items() if any(getattr(before, key) != getattr(new, key) for key in keys)]
