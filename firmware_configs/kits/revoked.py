"""Kits of devices that were revoked are not handed out: the list that the broker has says which those are.

It lies beside the kits, in `_fleet/broker/crl.pem`, and is signed by the authority whose certificate every kit holds.
Where kits are flashed on a machine that has no list, nothing is known: the broker refuses such a device all the same.
"""

from __future__ import annotations

from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm

from core.errors import ConfigError
from core.files import read_regular
from firmware_configs.kits.kit import Kit

__all__ = ["LIST", "check_kit", "is_revoked"]

LIST = Path("_fleet/broker/crl.pem")
MAX_LIST = 64 * 2**20
CERTIFICATES = ("tls/device.pem", "tls/claim.pem")


def check_kit(kit: Kit, kits: Path) -> None:
    """Refuse the kit of a revoked device; `kits` is the folder that kits lie in."""
    if is_revoked(kit, kits):
        raise ConfigError(
            f"kit {kit.device}: its certificate was revoked; to bring the device back:"
            f" `edgestill device revoke --undo {kit.device}`, then `edgestill provision --renew {kit.device}`"
        )


def is_revoked(kit: Kit, kits: Path) -> bool:
    """Whether the list beside the kits has the kit's certificate, or its claim."""
    path = kits / LIST
    held = [kit.files[name].data for name in CERTIFICATES if name in kit.files]
    if not path.exists() or not held or "tls/ca.pem" not in kit.files:
        return False
    try:
        revoked = x509.load_pem_x509_crl(read_regular(path, MAX_LIST))
        authority = x509.load_pem_x509_certificate(kit.files["tls/ca.pem"].data)
        genuine = revoked.is_signature_valid(authority.public_key())  # type: ignore[arg-type]
        serials = [x509.load_pem_x509_certificate(pem).serial_number for pem in held]
        found = any(revoked.get_revoked_certificate_by_serial_number(serial) is not None for serial in serials)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}; run `edgestill provision` again") from None
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm) as error:
        raise ConfigError(f"{path}: not a list of revoked certificates ({error}); run `edgestill provision`") from None
    if not genuine:
        raise ConfigError(f"{path}: is not of the authority that kit {kit.device} is of; run `edgestill provision`")
    return found
