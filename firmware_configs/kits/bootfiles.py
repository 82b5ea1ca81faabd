"""Files for a board's first boot, by OS family.

    bookworm     firstrun.sh       run once from the kernel command line, before the network is up
    cloud-init   user-data, meta-data, network-config     read by cloud-init (Raspberry Pi OS Trixie, Ubuntu)
    jetson       edgestill-firstboot.service              a unit for /etc/systemd/system of the root file system

All three run install.sh of the kit once the network is up, and retry every minute until it succeeds; the reason of a
failure is in last-error.txt, and goes to the fleet if there is a network (`on_board/report_failure.py`). Not if an
agent runs, of an earlier kit: the broker would end its connection, because both have the same name. On a Pi the kit is
first moved from the boot partition, which anyone with the card can read, to /var/lib/edgestill-kit. `@KIT@` is a
placeholder for the path of the kit on the running board, filled in when it is flashed.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from firmware_configs.kits.unit import NAME as AGENT
from firmware_configs.secrets import Wifi

__all__ = ["FIRSTBOOT", "JETSON_ERROR", "KIT", "KIT_FOLDER", "LAST_ERROR", "WIFI_FAMILIES", "boot_files"]

KIT = "@KIT@"
KIT_FOLDER = "/var/lib/edgestill-kit"
FIRSTBOOT = "edgestill-firstboot.service"
#: Why the last installation has failed, on the running board: on a Pi it is on the boot partition.
LAST_ERROR = "/boot/firmware/edgestill/last-error.txt"
JETSON_ERROR = "/var/lib/edgestill-kits/last-error.txt"
#: Families whose boot files set up the Wi-Fi.
WIFI_FAMILIES = ("bookworm", "cloud-init")
MARK = re.compile(r"@[A-Z_]+@")

_UNIT = """\
[Unit]
Description=Install the edgestill agent of this board's kit
ConditionPathExists=@FOLDER@/install.sh
Wants=network-online.target
After=network-online.target time-sync.target
StartLimitIntervalSec=0

[Service]
Type=oneshot
ExecStart=/bin/sh @FOLDER@/install.sh
ExecStartPost=/bin/rm -rf @FOLDER@
# the reason of a failure, for whoever reads the card elsewhere; gone once the installation has succeeded. A board that
# is shut down ends it by SIGTERM: it is no failure, and begins again at the next boot
ExecStopPost=-/bin/sh -c 'case $$SERVICE_RESULT/$$EXIT_STATUS in success/*) rm -f @ERROR@ ;; signal/TERM) ;; *) \
    mkdir -p "$$(dirname @ERROR@)" && { date -u; journalctl -u @FIRSTBOOT@ -n 20 -o cat; } > @ERROR@; sync ;; esac'
ExecStopPost=-/bin/sh -c 'case $$SERVICE_RESULT/$$EXIT_STATUS in success/*|signal/TERM) exit ;; esac; \
    systemctl is-active --quiet @AGENT@ || \
    journalctl -u @FIRSTBOOT@ -n 20 -o cat | python3 -I @FOLDER@/report_failure.py'
Restart=on-failure
RestartSec=60

[Install]
WantedBy=multi-user.target
"""

_TAKE_KIT = f"""\
# anyone with the card can read its boot partition, so the keys are moved away
if [ -d "{KIT}" ]; then
    rm -rf {KIT_FOLDER}.new
    mkdir -m 700 -p {KIT_FOLDER}.new
    cp -r "{KIT}/." {KIT_FOLDER}.new/
    find {KIT_FOLDER}.new -type f -exec chmod 600 {{}} +
    find {KIT_FOLDER}.new -type d -exec chmod 700 {{}} +
    sync
    rm -rf {KIT_FOLDER}
    mv {KIT_FOLDER}.new {KIT_FOLDER}
    rm -rf "{KIT}"
fi
cat > /etc/systemd/system/{FIRSTBOOT} <<'UNIT'
@UNIT@UNIT
"""

_FIRSTRUN = """\
#!/bin/bash
# Raspberry Pi OS Bookworm runs this once, from the kernel command line, and boots again.
set +e
cmdline=/boot/firmware/cmdline.txt
former=$(cat /etc/hostname)
echo @HOSTNAME@ > /etc/hostname
sed -i "s/127.0.1.1.*$former/127.0.1.1\\t@HOSTNAME@/" /etc/hosts
@WIFI@
@TAKE_KIT@
systemctl enable @FIRSTBOOT@

sed -i 's| systemd\\.run=@KIT@[^ ]*||g' "$cmdline"
grep -q ' systemd\\.run=' "$cmdline" ||
    sed -i 's| systemd\\.run_success_action=reboot||g; s| systemd\\.unit=kernel-command-line\\.target||g' "$cmdline"
exit 0
"""

_FIRSTRUN_WIFI = """
if [ -x /usr/lib/raspberrypi-sys-mods/imager_custom ]; then
    /usr/lib/raspberrypi-sys-mods/imager_custom set_wlan @SSID@ @KEY@ @COUNTRY@
else
    echo "edgestill: this system has no imager_custom: the Wi-Fi is not set up" >&2
fi
"""

_CLOUD_SCRIPT = f"""\
@TAKE_KIT@
systemctl daemon-reload
systemctl enable {FIRSTBOOT}
systemctl start --no-block {FIRSTBOOT}
"""


def boot_files(family: str, *, device: str, wifi: Wifi | None, instance: str) -> dict[str, str]:
    """The files of one family's first boot, by name; cloud-init does its work once for each `instance`."""
    if family == "bookworm":
        return {"firstrun.sh": _firstrun(device, wifi)}
    if family == "cloud-init":
        return _cloud_init(device, wifi, instance)
    return {FIRSTBOOT: _unit(KIT, JETSON_ERROR)} if family == "jetson" else {}


def _unit(folder: str, error: str = LAST_ERROR) -> str:
    return _fill(_UNIT, {"@FOLDER@": folder, "@ERROR@": error, "@FIRSTBOOT@": FIRSTBOOT, "@AGENT@": AGENT})


def _take_kit() -> str:
    return _fill(_TAKE_KIT, {"@UNIT@": _unit(KIT_FOLDER)})


def _firstrun(device: str, wifi: Wifi | None) -> str:
    lines = ""
    if wifi is not None:
        words = {"@SSID@": wifi.ssid, "@KEY@": wifi.key or "", "@COUNTRY@": wifi.country}
        lines = _fill(_FIRSTRUN_WIFI, {mark: shlex.quote(word) for mark, word in words.items()})
    marks = {"@HOSTNAME@": device, "@WIFI@": lines, "@TAKE_KIT@": _take_kit(), "@FIRSTBOOT@": FIRSTBOOT}
    return _fill(_FIRSTRUN, marks)


def _cloud_init(device: str, wifi: Wifi | None, instance: str) -> dict[str, str]:
    script = _fill(_CLOUD_SCRIPT, {"@TAKE_KIT@": _take_kit()})
    user = {"hostname": device, "manage_etc_hosts": True, "runcmd": [["/bin/sh", "-ec", script]]}
    network: dict[str, Any] = {"version": 2, "ethernets": {"eth0": {"dhcp4": True, "optional": True}}}
    if wifi is not None:
        network["wifis"] = {
            "wlan0": {
                "dhcp4": True,
                "optional": True,
                "regulatory-domain": wifi.country,
                "access-points": {wifi.ssid: {} if wifi.key is None else {"password": wifi.key}},
            }
        }
    return {
        "user-data": "#cloud-config\n" + _yaml(user),
        "meta-data": _yaml({"instance-id": f"edgestill-{device}-{instance}", "local-hostname": device}),
        "network-config": _yaml(network),
    }


def _fill(text: str, marks: Mapping[str, str]) -> str:
    """Replace all placeholders in one pass, because values may look like placeholders. `@KIT@` stays."""
    return MARK.sub(lambda found: {KIT: KIT, **marks}[found[0]], text)


def _yaml(facts: Mapping[str, Any]) -> str:
    """Tables as YAML blocks, everything else as JSON, which is YAML too."""
    return "".join(f"{line}\n" for line in _yaml_lines(facts, ""))


def _yaml_lines(facts: Mapping[str, Any], indent: str) -> Iterator[str]:
    for key, value in facts.items():
        name = key if re.fullmatch(r"[a-z][a-z0-9_-]*", key) else json.dumps(key, ensure_ascii=False)
        if isinstance(value, dict) and value:
            yield f"{indent}{name}:"
            yield from _yaml_lines(value, indent + "  ")
        else:
            yield f"{indent}{name}: {json.dumps(value, ensure_ascii=False)}"
