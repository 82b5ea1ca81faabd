"""A board's first start with a claim: it generates its keys, and waits until the fleet has certified them.

    identity/CLAIM/tls.key, device.key     generated here, once, and never sent
    identity/CLAIM/tls.pem                 the certificate; written last, so that it marks the board as enrolled

With the claim's certificate the broker only allows the board to send its request and to receive the answer. Killed at
any step, the board repeats the request with the same keys.
"""

from __future__ import annotations

import logging
import os
import time
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from core.crashpoints import reach
from core.errors import ConfigError, EdgestillError, EnvelopeError, SignatureError, WireError
from core.files import write_atomic
from core.settings import replace
from core.systemd import notify, watchdog_seconds
from edge_agent.config import AgentConfig, EnrolConfig
from edge_agent.faults import tell_fault
from edge_agent.state.folders import lock, read_small, remove, set_aside
from transport.config import TlsConfig
from transport.link import Connected, Link, Received
from wire.codec import decode_message
from wire.enrolment import fingerprint, make_request, name_of, shown
from wire.envelope import open_envelope
from wire.ids import AGGREGATOR
from wire.keys import Ed25519PrivateKey, generate_key, load_private_key, save_private_key
from wire.messages import Enrolled
from wire.topics import DeviceTopic

__all__ = ["Enrolment", "own_keys"]

log = logging.getLogger("edgestill.agent")
ASK_S, MAX_ASK_S = 5.0, 300.0  # between two requests
MAX_ANSWER = 16 * 1024
WAIT_S = 2.0


class Enrolment:
    """One board that is not enrolled yet; `run` returns when it is, or after `stop`."""

    def __init__(self, config: AgentConfig, claim: EnrolConfig) -> None:
        self.config, self._claim = config, claim
        self._aggregator = config.aggregator_key()
        claim.identity.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._tls, self._signing = own_keys(claim.identity)
        self.keys = fingerprint(self._tls.public_key(), self._signing.public_key())
        reach("agent-keys-made")
        self._request = self._make_request()
        self._topic, self._answers = (
            str(DeviceTopic(config.fleet, config.device, leaf)) for leaf in ("enrol", "enrolled")
        )
        self._link = Link(
            replace(config.broker, tls=TlsConfig(ca=claim.ca, cert=claim.cert, key=claim.key)),
            client_id=f"edgestill-{config.fleet}-{config.device}-claim",
            filters=[self._answers],
        )
        self._stopping = self._done = False
        self._told = ""

    def run(self) -> bool:
        """Repeat the request until the certificate has arrived; False if stopped before."""
        log.info("%s of %s: enrolling; fingerprint %s", self.config.device, self.config.fleet, shown(self.keys))
        held = lock(self.config.state_dir / "agent.lock")
        self._link.start()
        notify("READY=1")
        try:
            self._ask_until_answered()
        finally:
            self._link.stop()
            held.close()
        return self._done

    def stop(self) -> None:
        """Make `run` return soon; from any thread, and from a signal handler."""
        self._stopping = True
        self._link.wake()

    def _ask_until_answered(self) -> None:
        beat = watchdog_seconds()
        ask_at, wait = float("inf"), ASK_S
        while not (self._stopping or self._done):
            match self._link.next_event(min(WAIT_S, beat or WAIT_S)):
                case Connected():
                    ask_at, wait = 0.0, ASK_S
                    notify(f"STATUS=connected with a claim; fingerprint {shown(self.keys)}")  # `push` waits for this
                case Received(_, payload, _) if payload:
                    self._heard(payload)
            if time.monotonic() >= ask_at and self._link.publish(self._topic, self._request):
                ask_at, wait = time.monotonic() + wait, min(2 * wait, MAX_ASK_S)
                reach("agent-enrol-asked")
            if beat is not None:
                notify("WATCHDOG=1")

    def _heard(self, payload: bytes) -> None:
        config = self.config
        try:
            envelope = open_envelope(
                payload,
                public_key=self._aggregator,
                fleet=config.fleet,
                sender=AGGREGATOR,
                kinds=("enrolled",),
                max_bytes=MAX_ANSWER,
            )
            answer = decode_message(envelope.payload, Enrolled)
            if (answer.device, answer.keys) != (config.device, self.keys):
                return  # for other keys
            if answer.status == "approved":
                self._take(answer.certificate)
        except WireError as error:
            log.warning("%s: %s", self._answers, error)
            return
        except OSError as error:  # the answer is requested again until it is stored
            log.error("%s: %s; free some space or fix it", self._claim.identity, error.strerror or error)
            return
        except Exception as error:
            tell_fault(self._answers, error)
            return
        said = f"{answer.status}{f': {answer.reason}' if answer.reason else ''}"
        if said != self._told:
            log.log(logging.ERROR if answer.status == "refused" else logging.INFO, "enrolment: %s", said)
            self._told = said

    def _take(self, raw: bytes) -> None:
        """Store the certificate, if it belongs to this board."""
        authority = _certificate(self._claim.ca)
        try:
            cert = x509.load_der_x509_certificate(raw)
            cert.verify_directly_issued_by(authority)
            mine = cert.public_key() == self._tls.public_key() and name_of(cert.subject) == self.config.device
        except Exception as error:  # cryptography's exceptions for unknown versions, curves, ... have no common base
            raise SignatureError("enrolment: the certificate is not one of the fleet's authority") from error
        if not mine:
            raise EnvelopeError("enrolment: the certificate is for another key or device")
        reach("agent-certified")
        write_atomic(self._claim.identity / "tls.pem", cert.public_bytes(serialization.Encoding.PEM))
        reach("agent-enrolled")
        for former in self._claim.identity.parent.iterdir():
            if former != self._claim.identity:
                remove(former)
        self._done = True

    def _make_request(self) -> bytes:
        claim = _certificate(self._claim.cert)
        return make_request(
            fleet=self.config.fleet,
            device=self.config.device,
            claim=claim,
            claim_key=_private(self._claim.key),
            tls_key=self._tls,
            signing=self._signing,
        )


def own_keys(folder: Path) -> tuple[ec.EllipticCurvePrivateKey, Ed25519PrivateKey]:
    """The TLS key and the signing key in the folder, each generated if missing or invalid.

    If damaged keys are replaced, the aggregator sees another board than the one that first sent a request.
    """
    tls, signing = folder / "tls.key", folder / "device.key"
    for path, load in ((tls, _private), (signing, load_private_key)):
        if os.path.lexists(path):
            try:
                load(path)
            except EdgestillError as error:
                set_aside(folder, path, str(error))
    if not tls.exists():
        made = ec.generate_private_key(ec.SECP256R1())
        encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
        write_atomic(tls, made.private_bytes(encoding, form, serialization.NoEncryption()), mode=0o600)
    if not signing.exists():
        save_private_key(generate_key(), signing)
    return _private(tls), load_private_key(signing)


def _private(path: Path) -> ec.EllipticCurvePrivateKey:
    try:
        key = serialization.load_pem_private_key(read_small(path), password=None)
    except (OSError, ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise ConfigError(f"key {path}: cannot be used: {error}") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ConfigError(f"key {path}: not an elliptic-curve key")
    return key


def _certificate(path: Path) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(read_small(path))
    except (OSError, ValueError) as error:
        raise ConfigError(f"certificate {path}: cannot be used: {error}") from None
