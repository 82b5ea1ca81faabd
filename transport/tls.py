"""TLS to the broker: one trusted CA, a client certificate, host name check."""

from __future__ import annotations

import ssl

from core.errors import ConfigError
from transport.config import TlsConfig

__all__ = ["tls_context"]


def tls_context(tls: TlsConfig) -> ssl.SSLContext:
    """A context from the current files: renewed certificates are used from the next connection on."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # verifies certificate and host name
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_verify_locations(cafile=tls.ca)
    except (OSError, ValueError) as error:  # SSLError is an OSError
        raise ConfigError(f"broker TLS: cannot use {tls.ca} as 'ca': {_why(error)}") from error
    if tls.cert is None or tls.key is None:
        return context
    try:
        # an encrypted key must not ask for its passphrase on a terminal that a service does not have
        context.load_cert_chain(tls.cert, tls.key, password=lambda: b"")
    except (OSError, ValueError) as error:
        files = f"{tls.cert} and {tls.key} as 'cert' and 'key'"
        raise ConfigError(f"broker TLS: cannot use {files}: {_why(error)}") from error
    return context


def _why(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        reason = (error.reason or "not PEM").replace("_", " ").lower()
        return "the key does not belong to the certificate" if "mismatch" in reason else reason
    return getattr(error, "strerror", None) or str(error)
