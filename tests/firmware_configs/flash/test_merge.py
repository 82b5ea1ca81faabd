"""A kit's settings are joined to the user's, which stay."""

from __future__ import annotations

import json
import shutil
import subprocess
from email import message_from_bytes
from email.message import Message

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import ConfigError
from firmware_configs.flash.merge import MARK, limit_memory, merge_cmdline, merge_meta_data, merge_user_data

SCRIPT = "/boot/firmware/edgestill/pi-07-0a1b2c3d/firstrun.sh"
RUN = f"systemd.run={SCRIPT} systemd.run_success_action=reboot systemd.unit=kernel-command-line.target"
OURS = b'#cloud-config\nhostname: "pi-07"\nruncmd: [["/bin/sh", "-ec", "install"]]\n'
THEIRS = b"#cloud-config\n# my own\nhostname: kitchen\nruncmd:\n  - [echo, mine]\npackages: [vim]\n"


def parts(data: bytes) -> dict[str | None, Message]:
    payload = message_from_bytes(data).get_payload()
    assert isinstance(payload, list)
    return {part.get_filename(): part for part in payload if isinstance(part, Message)}


def test_the_script_is_added_to_the_words_of_the_kernel() -> None:
    merged = merge_cmdline(b"root=/dev/sda2 quiet\n", SCRIPT)
    assert merged == f"root=/dev/sda2 quiet cgroup_enable=memory {RUN}\n".encode()


@pytest.mark.parametrize(
    "words", ["root=x cgroup_enable=memory", "cgroup_enable=cpuset,memory root=x", "cgroup_disable=memory root=x", ""]
)
def test_a_line_that_says_whether_memory_is_limited_stays(words: str) -> None:
    assert limit_memory(f"{words}\n".encode()) == f"{words}\n".encode()


def test_another_controller_is_another_thing() -> None:
    assert limit_memory(b"root=x cgroup_enable=cpuset") == b"root=x cgroup_enable=cpuset cgroup_enable=memory\n"


def test_flashing_again_replaces_only_our_own_script() -> None:
    once = merge_cmdline(b"root=/dev/sda2\n", "/boot/firmware/edgestill/pi-07-ffffffff/firstrun.sh")
    assert merge_cmdline(once, SCRIPT) == merge_cmdline(b"root=/dev/sda2\n", SCRIPT)


def test_a_script_of_the_users_stays_and_comes_first() -> None:
    imager = b"root=x systemd.run=/boot/firmware/firstrun.sh systemd.run_success_action=reboot systemd.unit=a.target\n"
    words = merge_cmdline(imager, SCRIPT).decode().split()
    assert [w for w in words if w.startswith("systemd.run=")] == [
        "systemd.run=/boot/firmware/firstrun.sh",
        f"systemd.run={SCRIPT}",
    ]
    assert words.count("systemd.run_success_action=reboot") == 1


@given(st.lists(st.text(st.characters(codec="ascii", categories=("L", "N")), min_size=1), min_size=1))
def test_merging_twice_is_merging_once(words: list[str]) -> None:
    once = merge_cmdline(" ".join(words).encode(), SCRIPT)
    assert merge_cmdline(once, SCRIPT) == once
    assert once.decode().split()[: len(words)] == words
    assert once.count(b"\n") == 1


@pytest.mark.parametrize("empty", [b"", b"\n", f"{RUN}\n".encode()])
def test_a_cmdline_that_would_not_boot_is_refused(empty: bytes) -> None:
    with pytest.raises(ConfigError, match=r"cmdline\.txt is empty"):
        merge_cmdline(empty, SCRIPT)


@pytest.mark.parametrize("existing", [None, b"", b"\n", b"#cloud-config\n", b"#cloud-config\n# hostname: x\n\n"])
def test_user_data_that_says_nothing_gives_way(existing: bytes | None) -> None:
    merged = merge_user_data(existing, OURS)
    assert merged == OURS.replace(b"\n", b"\n" + MARK, 1)
    assert merge_user_data(merged, OURS) == merged


def test_user_data_of_the_users_stays_byte_for_byte() -> None:
    found = parts(merge_user_data(THEIRS, OURS))
    assert list(found) == ["user-data", "edgestill.cfg"]
    assert found["user-data"].get_payload(decode=True) == THEIRS
    assert found["user-data"].get_content_type() == "text/cloud-config"
    assert found["edgestill.cfg"].get_payload(decode=True) == OURS.replace(b"\n", b"\n" + MARK, 1)


def test_flashing_again_replaces_only_our_own_part() -> None:
    once = merge_user_data(THEIRS, OURS.replace(b"pi-07", b"pi-01"))
    again = merge_user_data(once, OURS)
    assert b"pi-01" not in again
    assert again == merge_user_data(THEIRS, OURS)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (b"#!/bin/sh\nFrom here on\necho hi\n", "text/x-shellscript"),
        (b"#include\nhttps://example.org/x\n", "text/x-include-url"),
        (b"#cloud-config-archive\n- {type: text/cloud-config, content: ''}\n", "text/cloud-config-archive"),
        (b"## template: jinja\n#cloud-config\nhostname: {{ v1.x }}\n", "text/jinja2"),
        ("#cloud-config\nhostname: küche\n".encode(), "text/cloud-config"),
    ],
)
def test_every_form_that_cloud_init_knows_is_kept(text: bytes, kind: str) -> None:
    part = parts(merge_user_data(text, OURS))["user-data"]
    assert (part.get_content_type(), part.get_payload(decode=True)) == (kind, text)


def test_user_data_of_no_known_form_is_refused() -> None:
    with pytest.raises(ConfigError, match="nothing that cloud-init knows"):
        merge_user_data(b"hostname: x\n", OURS)


def test_the_users_own_archive_gets_one_more_part() -> None:
    theirs = merge_user_data(THEIRS, OURS).replace(b"edgestill.cfg", b"other.cfg")
    assert list(parts(merge_user_data(theirs, OURS))) == ["user-data", "other.cfg", "edgestill.cfg"]


def test_meta_data_changes_only_in_our_keys() -> None:
    existing = b"# mine\ninstance-id: rpios\nnetwork: |\n  a\n  b\ndsmode: local\n"
    ours = b'instance-id: "edgestill-1"\nlocal-hostname: "pi-07"\n'
    expected = b'# mine\ninstance-id: "edgestill-1"\nnetwork: |\n  a\n  b\ndsmode: local\nlocal-hostname: "pi-07"\n'
    assert merge_meta_data(existing, ours) == expected
    assert merge_meta_data(expected, ours) == expected
    assert merge_meta_data(None, ours) == ours


def test_every_spelling_of_the_instance_that_the_user_has_gets_the_kits() -> None:
    spellings = ("instance-id", "instance_id")
    ours = b'instance-id: "edgestill-1"\n'
    image = merge_meta_data(b"dsmode: local\ninstance_id: rpios-image\n", ours, also=spellings)
    assert image == b'dsmode: local\ninstance_id: "edgestill-1"\ninstance-id: "edgestill-1"\n'
    assert merge_meta_data(image, ours, also=spellings) == image
    assert merge_meta_data(b'"instance-id": a\ninstance-id: b\n', ours, also=spellings) == ours * 2


def test_meta_data_as_json_becomes_lines() -> None:
    ours = b'instance-id: "edgestill-1"\n'
    merged = merge_meta_data(b'{"instance-id": "iid-local01", "tags": ["a"]}\n', ours)
    assert merged == b'instance-id: "edgestill-1"\ntags: ["a"]\n'
    with pytest.raises(ConfigError, match="neither lines of `key: value` nor JSON"):
        merge_meta_data(b"{instance-id: iid-local01}\n", ours)


def test_a_value_over_several_lines_is_replaced_whole() -> None:
    assert merge_meta_data(b"instance-id: >\n  old\n  one\nb: 1\n", b"instance-id: x\n") == b"instance-id: x\nb: 1\n"


CLOUD_INIT = """
import json, sys, tempfile
from cloudinit import handlers, helpers, user_data, util
from cloudinit.handlers.cloud_config import CloudConfigPartHandler
from cloudinit.settings import PER_ALWAYS
folder = tempfile.mkdtemp()
paths = helpers.Paths({"cloud_dir": folder, "run_dir": folder})
message = user_data.UserDataProcessor(paths).process(sys.stdin.buffer.read())
handler = CloudConfigPartHandler(paths)
handler.cloud_fn = folder + "/out.yaml"
found = helpers.ContentHandlers()
found.register(handler, initialized=True)
data = {"handlers": found, "handlerdir": folder, "data": None, "frequency": PER_ALWAYS, "handlercount": 0,
        "excluded": []}
handlers.call_begin(handler, data["data"], data["frequency"])
handlers.walk(message, handlers.walker_callback, data)
handlers.call_end(handler, data["data"], data["frequency"])
print(json.dumps(util.load_yaml(open(handler.cloud_fn).read())))
"""


needs_cloud_init = pytest.mark.skipif(
    shutil.which("cloud-init") is None, reason="no cloud-init: apt-get install cloud-init"
)


def read_by_cloud_init(user_data: bytes) -> dict[str, object]:
    command = ["/usr/bin/python3", "-c", CLOUD_INIT]
    done = subprocess.run(command, input=user_data, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    config = json.loads(done.stdout.decode().splitlines()[-1])
    assert isinstance(config, dict)
    return config


@needs_cloud_init
def test_cloud_init_itself_reads_both_parts_as_one() -> None:
    config = read_by_cloud_init(merge_user_data(THEIRS, OURS))
    assert config["runcmd"] == [["echo", "mine"], ["/bin/sh", "-ec", "install"]]
    assert config["packages"] == ["vim"]
    assert config["hostname"] == "kitchen"


#: As Raspberry Pi Imager writes it, but for the hash of the password.
IMAGER = b"""#cloud-config
hostname: kitchen
manage_etc_hosts: true
timezone: Europe/Berlin
users:
- name: me
  groups: users,adm,dialout,audio,netdev,video,plugdev,cdrom,games,input,gpio,spi,i2c,render,sudo
  shell: /bin/bash
  lock_passwd: false
  passwd: "$5$x"
  ssh_authorized_keys:
  - ssh-ed25519 AAAA me
enable_ssh: true
ssh_pwauth: false
runcmd:
- [ rfkill, unblock, wifi ]
- [ sh, -c, "for f in /var/lib/systemd/rfkill/*:wlan; do echo 0 > \\"$f\\"; done" ]
"""


@needs_cloud_init
def test_what_imager_has_set_up_stays_and_the_kit_runs_after_it() -> None:
    alone = read_by_cloud_init(IMAGER)
    both = read_by_cloud_init(merge_user_data(IMAGER, OURS))
    assert {name: value for name, value in both.items() if name != "runcmd"} == {
        name: value for name, value in alone.items() if name != "runcmd"
    }
    commands, mine = both["runcmd"], alone["runcmd"]
    assert isinstance(mine, list)
    assert commands == [*mine, ["/bin/sh", "-ec", "install"]]
