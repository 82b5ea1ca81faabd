"""`Fleet`: a fleet of boards by its fleet.toml. Its methods call what the commands of the same names call."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.errors import ConfigError

if TYPE_CHECKING:
    from aggregator.config.fleet import FleetConfig
    from edgestill.web.beside import PageBeside
    from firmware_configs.manifest import Manifest
    from firmware_configs.use_cases.flash_kit import FlashedCard
    from firmware_configs.use_cases.provision_fleet import FleetKits

__all__ = ["Fleet", "serve_fleet"]


@dataclass(frozen=True, slots=True)
class Fleet:
    """A fleet of boards.

    fleet = Fleet.from_toml("fleet.toml")
    fleet.provision()
    fleet.flash("pi-07", to="/media/pi-07")
    fleet.serve(until_done=True)
    """

    path: Path
    kits: Path | None = None  # None: [provision] out of the file, or kits/ beside it

    @classmethod
    def from_toml(cls, path: str | Path, *, kits: str | Path | None = None) -> Fleet:
        """The fleet of this file, which is read by every method again; a file that cannot be read is refused here."""
        from core.config_keys import read_toml, sub_table

        path = Path(path).expanduser()
        sub_table(read_toml(path), "fleet", str(path))
        return cls(path, None if kits is None else Path(kits).expanduser())

    @property
    def devices(self) -> tuple[str, ...]:
        """The names of the boards in its [[group]] tables."""
        return tuple(device.id for device in self._manifest().devices)

    def provision(self, *, renew: Collection[str] = (), wheels: str | None = None) -> FleetKits:
        """Make the keys, certificates and kits that are missing or have changed."""
        from firmware_configs.use_cases.provision_fleet import provision_fleet

        return provision_fleet(self.path, out=self.kits, renew=renew, wheels=wheels)

    def flash(
        self,
        device: str | None = None,
        *,
        to: str | Path,
        base: str | Path | None = None,
        replace: bool = False,
        yes: bool = False,
        dry_run: bool = False,
        report: Callable[[str], None] | None = None,
    ) -> FlashedCard:
        """Write the kit of a device to a card, a mounted card or an image; None: of the next device without a card.

        base     the image from which the image `to` is made
        replace  replace another device's kit on the card
        yes      overwrite the block device `to`
        dry_run  plan only
        """
        from firmware_configs.use_cases.flash_kit import FlashOptions, flash_kit, flash_next

        manifest, to = self._manifest(), Path(to).expanduser()
        image = None if base is None else Path(base).expanduser()
        options = FlashOptions(base=image, replace=replace, yes=yes, dry_run=dry_run)
        if device is None:
            return flash_next(manifest.out, to, options, report=report)
        return flash_kit(manifest.out / manifest.device(device).id, to, options, report=report)

    def serve(
        self, *, until_done: bool = False, new_key: bool = False, settings: Mapping[str, Any] | None = None
    ) -> None:
        """Run the aggregator until Ctrl-C, or until its rounds are done; `settings` such as {"round.rounds": 20}."""
        given = [f"{key}={_text(value)}" for key, value in (settings or {}).items()]
        serve_fleet(self.path, given, until_done=until_done, new_key=new_key)

    def _manifest(self) -> Manifest:
        from firmware_configs.manifest import load_manifest

        return load_manifest(self.path, out=self.kits)


def _text(value: Any) -> str:
    """A value as on the command line.

    >>> _text(True), _text([1, 2]), _text(0.5)
    ('true', '1,2', '0.5')
    """
    if isinstance(value, list | tuple):
        return ",".join(map(_text, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def serve_fleet(path: Path, given: Sequence[str], *, until_done: bool = False, new_key: bool = False) -> None:
    """Run the aggregator of a fleet.toml, and its page if [monitor] asks for one; `given` are texts table.key=value."""
    if threading.current_thread() is not threading.main_thread():
        raise ConfigError("serve() handles signals: call it in the main thread, or start `edgestill aggregator serve`")
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until the service listens to it
    from aggregator.config.fleet import load_fleet_config
    from aggregator.service import serve
    from core.logs import setup_logging

    loaded = load_fleet_config(path, given)
    setup_logging(loaded.log.format, loaded.log.level, fleet=loaded.fleet)
    with _page(loaded, given) as page:
        serve(
            loaded,
            until_done=until_done,
            new_key=new_key,
            read=lambda: load_fleet_config(path, given),
            reloaded=lambda _: None if page is None else page.restart(),
        )


def _page(loaded: FleetConfig, settings: Sequence[str]) -> AbstractContextManager[PageBeside | None]:
    """The page in a process of its own, if one is asked for."""
    if loaded.monitor.web is None:
        return nullcontext()
    from edgestill.cli.service.web import web_server
    from edgestill.web.beside import PageBeside

    server = web_server()
    server.check_options(loaded, server.options_of(loaded))
    return PageBeside(loaded.path, settings)
