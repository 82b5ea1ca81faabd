"""Wi-Fi passwords are read from where they belong, and shown nowhere."""

from pathlib import Path

import pytest

from core.errors import ConfigError
from firmware_configs.secrets import Wifi, read_wifi
from tests.firmware_configs.fleets import write_secrets

pytestmark = pytest.mark.light


def test_the_key_is_that_of_the_standards_example() -> None:
    """IEEE 802.11, J.4.2: passphrase "password", SSID "IEEE"."""
    wifi = Wifi(ssid="IEEE", password="password", country="DE")
    assert wifi.key == "f42c6fc52df0ebef9ebb4b90b38a5f902e83fe1b135a70e23aed762e9710a12e"


def test_an_open_network_has_no_key() -> None:
    assert Wifi(ssid="open", country="DE").key is None


def test_a_network_is_read_from_the_file(tmp_path: Path) -> None:
    wifi = read_wifi(write_secrets(tmp_path), "home", {})
    assert (wifi.ssid, wifi.password, wifi.country) == ("IEEE", "password", "DE")
    assert "password" not in repr(wifi).replace("Wifi(ssid=", "")


def test_the_environment_comes_before_the_file_and_is_enough(tmp_path: Path) -> None:
    told = {"EDGESTILL_WIFI_HOME_PASSWORD": "from-outside"}
    assert read_wifi(write_secrets(tmp_path), "home", told).password == "from-outside"
    whole = {**told, "EDGESTILL_WIFI_HOME_SSID": "x", "EDGESTILL_WIFI_HOME_COUNTRY": "AT"}
    assert read_wifi(None, "home", whole).ssid == "x"


def test_a_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="chmod 600"):
        read_wifi(write_secrets(tmp_path, 0o640), "home", {})


def test_an_unknown_network_is_told_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no Wi-Fi 'hom'; did you mean 'home'"):
        read_wifi(write_secrets(tmp_path), "hom", {})
    with pytest.raises(ConfigError, match="EDGESTILL_WIFI_HOME_SSID"):
        read_wifi(None, "home", {})


@pytest.mark.parametrize("password", ["short", "x" * 64, "pass\nword", "pässword"])
def test_a_password_that_wpa_does_not_take_is_refused_and_not_shown(tmp_path: Path, password: str) -> None:
    with pytest.raises(ConfigError, match="8 to 63 printable ASCII") as raised:
        read_wifi(write_secrets(tmp_path), "home", {"EDGESTILL_WIFI_HOME_PASSWORD": password})
    assert password not in str(raised.value)


@pytest.mark.parametrize(("ssid", "country"), [("", "DE"), ("x" * 33, "DE"), ("a\nb", "DE"), ("a", "de"), ("a", "D")])
def test_other_nonsense_is_refused(ssid: str, country: str) -> None:
    with pytest.raises(ConfigError):
        Wifi(ssid=ssid, country=country)


def test_an_unknown_table_is_refused(tmp_path: Path) -> None:
    path = write_secrets(tmp_path)
    path.write_text("[wlan.home]\n")
    with pytest.raises(ConfigError, match=r"unknown table \[wlan\]"):
        read_wifi(path, "home", {})
