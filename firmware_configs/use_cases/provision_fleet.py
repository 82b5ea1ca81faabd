"""Creates the kits and identities of the fleet in a manifest file."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from firmware_configs.manifest import load_manifest
from firmware_configs.provision import FLEET, KIT_PUB, Provisioned, authority_folder, provision
from wire.ids import AGGREGATOR
from wire.keys import load_public_key, public_key_hex

__all__ = ["FleetKits", "provision_fleet"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetKits:
    """A provisioned fleet: the result of the run, and the paths of its files."""

    out: Path
    kit_key: str  # hex of the public key that verifies kits
    done: Provisioned

    @property
    def broker(self) -> Path:
        """The files for Mosquitto."""
        return self.out / FLEET / "broker"

    @property
    def aggregator(self) -> Path:
        """The aggregator's TLS files."""
        return self.out / FLEET / AGGREGATOR

    @property
    def device_keys(self) -> Path:
        """Public signing keys: [devices] keys_dir."""
        return self.out / FLEET / "devices"

    @property
    def authority(self) -> Path:
        """The certificate authority, whose owner can create devices."""
        return authority_folder(self.out)

    def facts(self) -> dict[str, Any]:
        """The result as JSON."""
        return {"out": str(self.out), "kit_key": self.kit_key, **asdict(self.done)}


def provision_fleet(
    file: Path, *, out: Path | None = None, renew: Collection[str] = (), wheels: str | None = None
) -> FleetKits:
    """Make what is missing or has changed, with new certificates or claims for the devices of `renew`.

    `out` is where kits and identities go; None: [provision] out of the manifest, or kits/. `wheels`: card, fleet,
    network or none, instead of the manifest's.
    """
    manifest = load_manifest(file, out=out, wheels=wheels)
    done = provision(manifest, renew=renew)
    key = public_key_hex(load_public_key(manifest.out / KIT_PUB))
    return FleetKits(out=manifest.out, kit_key=key, done=done)
