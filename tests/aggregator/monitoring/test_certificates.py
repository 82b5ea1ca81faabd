"""Ends of certificates, of real files."""

from pathlib import Path

from cryptography import x509

from aggregator.monitoring.certificates import certificate_ends
from tests.certificates import Authority
from transport.config import TlsConfig


def test_each_file_tells_its_first_end_and_a_damaged_one_nothing(tmp_path: Path) -> None:
    assert certificate_ends(None) == {}
    authority = Authority(tmp_path / "authority")
    cert, key = authority.issue("aggregator")
    tls = TlsConfig(ca=authority.ca, cert=cert, key=key)
    ends = certificate_ends(tls)
    found = {
        name: x509.load_pem_x509_certificate(path.read_bytes()).not_valid_after_utc.timestamp()
        for name, path in {"ca": authority.ca, "aggregator": cert}.items()
    }
    assert ends == found
    damaged = tmp_path / "damaged.pem"
    damaged.write_text("no certificate")
    assert certificate_ends(TlsConfig(ca=damaged)) == {}
    assert certificate_ends(TlsConfig(ca=tmp_path / "gone.pem")) == {}
