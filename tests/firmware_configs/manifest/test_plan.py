"""What a manifest tells."""

from pathlib import Path

import pytest

from core.errors import ConfigError
from tests.firmware_configs.fleets import PI, manifest, write_secrets

pytestmark = pytest.mark.light


def test_a_device_is_found_by_name(tmp_path: Path) -> None:
    found = manifest(tmp_path)
    assert found.device("pi-02").id == "pi-02"
    with pytest.raises(ConfigError, match="no device 'pi-2'; did you mean"):
        found.device("pi-2")


def test_the_wifi_comes_from_the_secrets_and_its_password_is_not_told(tmp_path: Path) -> None:
    write_secrets(tmp_path)
    found = manifest(tmp_path, PI + 'wifi = "home"\n', provision='secrets = "secrets.toml"')
    assert found.devices[0].wifi is not None
    assert found.devices[0].wifi.password == "password"
    assert "'wifi': 'IEEE'" in str(found.facts())
    assert "'password'" not in str(found.facts())
    assert "'password'" not in repr(found)
