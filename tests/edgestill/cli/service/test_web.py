"""`edgestill web`: options and the token."""

from pathlib import Path

import pytest

from aggregator.config.fleet import load_fleet_config
from edgestill.web.token import is_token
from tests.edgestill.cli.typed import run


def test_a_token_is_printed_once_and_replaced(config: Path, capsys: pytest.CaptureFixture) -> None:
    code, out, _ = run(capsys, "web", "token", "--config", config)
    assert code == 0
    assert is_token(load_fleet_config(config).state, out)
    code, again, _ = run(capsys, "web", "token", "--config", config, "--json")
    assert (code, out.strip() in again) == (0, False)


def test_the_page_needs_its_fleet(capsys: pytest.CaptureFixture) -> None:
    code, _, err = run(capsys, "web")
    assert (code, "give the fleet.toml" in " ".join(err.split())) == (2, True)


def test_an_address_that_is_none_is_told(config: Path, capsys: pytest.CaptureFixture) -> None:
    code, _, err = run(capsys, "web", "--config", config, "--listen", "8080x")
    assert (code, "'web': '8080x' is no address; write host:port" in " ".join(err.split())) == (3, True)
