"""A Mosquitto with the very files that `edgestill provision` makes."""

from __future__ import annotations

import os
import re
import shutil
import signal
from pathlib import Path

from firmware_configs.broker.mosquitto import ACL_PLUGIN, FOLDER
from tests.brokers import Mosquitto, mosquitto_version

OWNER = "_broker"


class Provisioned(Mosquitto):
    """The files of OUT/_fleet/broker, copied as a user would; only port and folder are this test's."""

    def __init__(self, folder: Path, out: Path) -> None:
        super().__init__(folder, anonymous=False)
        self.made = out / "_fleet" / "broker"
        self.files = folder / "edgestill"

    def _conf(self) -> str:
        shutil.copytree(self.made, self.files, dirs_exist_ok=True)
        with (self.files / "acl").open("a") as access:  # whoever runs a broker may say and hear anything
            access.write(f"\nuser {OWNER}\ntopic readwrite #\n")
        form = "2.1" if mosquitto_version() >= (2, 1) else "2.0"
        text = (self.files / f"mosquitto-{form}.conf").read_text()
        text = text.replace(ACL_PLUGIN, os.environ.get("EDGESTILL_TEST_MOSQUITTO_ACL", ACL_PLUGIN))
        text, count = re.subn(r"^listener \d+$", f"listener {self.port} 127.0.0.1", text, flags=re.MULTILINE)
        assert count == 1
        assert FOLDER in text
        return "user root\n" + text.replace(FOLDER, str(self.files))

    def reload(self) -> None:
        """Have it read its files again, as `systemctl reload` does."""
        assert self._process is not None
        self._process.send_signal(signal.SIGHUP)
