"""Kits of revoked devices are withheld, according to the broker's certificate revocation list.

The list is next to the kits, in `_fleet/broker/crl.pem`, and is signed by the authority whose certificate is in every
kit. On a machine without the list nothing is known, but the broker refuses such a device anyway.
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
    """Refuse the kit of a revoked device; `kits` is the folder of kits."""
    if is_revoked(kit, kits):
        raise ConfigError(
            f"kit {kit.device}: its certificate was revoked; to bring the device back:"
            f" `edgestill device revoke --undo {kit.device}`, then `edgestill provision --renew {kit.device}`"
        )


def is_revoked(kit: Kit, kits: Path) -> bool:
    """Whether the revocation list has the kit's certificate, or its claim."""
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
        raise ConfigError(f"{path}: was not issued by the authority of kit {kit.device}; run `edgestill provision`")
    return found
