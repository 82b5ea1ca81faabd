"""From a manifest to a round: provisioned, flashed into an image, taken from it as at a first boot, joined over TLS."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from edgestill.cli.main import main
from firmware_configs.flash.cards.image import Image
from tests.brokers import free_port
from tests.e2e.fleets import TIMEOUT
from tests.firmware_configs.brokers import Provisioned
from tests.firmware_configs.flash.made_cards import BOOKWORM, make_image, needs_tools
from tests.firmware_configs.fleets import write_served


def edgestill(*arguments: object) -> None:
    with pytest.raises(SystemExit) as done:
        main([str(argument) for argument in arguments])
    assert done.value.code == 0


def first_boot(image: Path, etc: Path) -> Path:
    """What firstrun.sh and install.sh do with the files: copied from the folder that the card names, for root alone."""
    card = Image(image)
    words = (card.read("cmdline.txt") or b"").decode().split()
    (script,) = [word.partition("=")[2] for word in words if word.startswith("systemd.run=")]
    folder = Path(script).parent.relative_to("/boot/firmware").as_posix()
    names = [*card.names(folder), *(f"tls/{name}" for name in card.names(f"{folder}/tls"))]
    for name in names:
        data = card.read(f"{folder}/{name}")
        if data is not None:
            (etc / name).parent.mkdir(parents=True, exist_ok=True)
            (etc / name).write_bytes(data)
            (etc / name).chmod(0o600)
    return etc / "agent.toml"


@needs_tools
@pytest.mark.broker
def test_a_board_that_boots_from_a_flashed_image_completes_a_round(tmp_path: Path) -> None:
    broker = Provisioned(tmp_path / "mosquitto", tmp_path / "kits")
    broker.port = free_port()
    fleet = write_served(tmp_path, broker.port, count=1)
    edgestill("provision", fleet)
    image = make_image(tmp_path / "card.img", BOOKWORM)
    edgestill("flash", tmp_path / "kits" / "pi-01", "--to", image)
    config = first_boot(image, tmp_path / "board" / "etc")
    shutil.rmtree(tmp_path / "kits" / "pi-01")  # the board has what the image gave it, and nothing else
    environment = {**os.environ, "EDGESTILL_AGENT_AGENT_STATE_DIR": str(tmp_path / "board" / "state")}
    command = [sys.executable, "-m", "edgestill"]
    with broker, (tmp_path / "agent.log").open("wb") as log:
        agent = subprocess.Popen([*command, "agent", "run", "--config", str(config)], env=environment, stderr=log)
        try:
            served = subprocess.run(
                [*command, "aggregator", "serve", "--config", str(fleet), "--until-done"],
                capture_output=True,
                text=True,
                check=False,
                timeout=TIMEOUT,
            )
        finally:
            agent.terminate()
            agent.wait(120)
    said = served.stderr + (tmp_path / "agent.log").read_text()
    assert served.returncode == 0, said
    assert "round 1 closed" in said
    assert (tmp_path / "board" / "state" / "current.onnx").exists()
