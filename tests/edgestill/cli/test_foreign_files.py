"""Whatever lies where a command reads a file: one line, at once, and no traceback."""

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from edgestill.cli.main import main
from firmware_configs.provision import provision
from tests.firmware_configs.flash.made_cards import BOOKWORM, make_folder
from tests.firmware_configs.fleets import manifest


def garbage(path: Path) -> None:
    path.write_bytes(bytes(range(256)) * 40)


def json_nested(path: Path) -> None:
    path.write_text("[" * 100_000)


def toml_nested(path: Path) -> None:
    path.write_text(f"a = {'[' * 5000}")


def sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(100 * 2**20)


def unreadable(path: Path) -> None:
    path.write_text("[fleet]\n")
    path.chmod(0)


def a_loop(path: Path) -> None:
    path.symlink_to(path.name)


KINDS: dict[str, Callable[[Path], object]] = {
    "empty": Path.touch,
    "garbage": garbage,
    "folder": Path.mkdir,
    "pipe": os.mkfifo,
    "zeros": lambda path: path.symlink_to("/dev/zero"),
    "loop": a_loop,
    "unreadable": unreadable,
    "sparse": sparse,
    "json": json_nested,
    "toml": toml_nested,
    "missing": lambda path: None,
}
#: Commands; FILE is what is tried, KITS a folder of kits of which FILE may be a part.
COMMANDS = {
    "config": ("config check FILE", "x.toml"),
    "provision": ("provision FILE", "x.toml"),
    "status": ("status --config FILE", "x.toml"),
    "device": ("device list --config FILE", "x.toml"),
    "approve": ("device approve --config FILE", "x.toml"),
    "serve": ("aggregator serve --config FILE", "x.toml"),
    "model": ("model list --config FILE", "x.toml"),
    "agent": ("agent run --config FILE", "x.toml"),
    "doctor": ("doctor --config FILE", "x.toml"),
    "sweep": ("sweep FILE --dry-run", "x.toml"),
    "hardware": ("simulate --dry-run --hardware FILE --virtual-clock --devices rpi4:3", "x.toml"),
    "trace": ("simulate --dry-run --virtual-clock --trace FILE", "x.csv"),
    "resume": ("simulate --dry-run --resume FILE", "run.json"),
    "report": ("report FILE", "run.json"),
    "keys": ("keys show FILE", "x.key"),
    "npz": ("data show FILE --json", "x.npz"),
    "csv": ("data show FILE --json", "x.csv"),
    "gz": ("data show FILE --json", "x.csv.gz"),
    "read": ("flash --read FILE", "x.img"),
    "to": ("flash KITS/pi-01 --to FILE", "x.img"),
    "from": ("flash KITS/pi-01 --from FILE --to new.img", "x.img"),
    "kit key": ("kit verify KITS/pi-01 --key FILE", "x.pub"),
    "kit.json": ("kit verify KITS/pi-01", "KITS/pi-01/kit.json"),
    "kit.sig": ("push KITS/pi-01 root@nowhere", "KITS/pi-01/kit.sig"),
    "kit file": ("flash KITS/pi-01 --to card", "KITS/pi-01/tls/device.key"),
    "kit pub": ("flash KITS --next --to card", "KITS/fleet-kit.pub"),
    "crl": ("flash KITS/pi-01 --to card", "KITS/_fleet/broker/crl.pem"),
    "flashed": ("flash KITS --next --to card", "KITS/flashed.json"),
    "journal": ("flash KITS/pi-01 --to card", "card/edgestill/journal"),
    "ca.pem": ("provision fleet.toml", "KITS/_fleet/authority/ca.pem"),
    "ca.key": ("provision fleet.toml", "KITS/_fleet/authority/ca.key"),
    "issued": ("provision fleet.toml", "KITS/_fleet/authority/issued.json"),
    "lock": ("provision fleet.toml", "KITS/_fleet/authority/lock"),
    "kit.key": ("provision fleet.toml", "KITS/_fleet/authority/kit.key"),
    "broker.pem": ("provision fleet.toml", "KITS/_fleet/broker/broker.pem"),
    "aggregator.key": ("provision fleet.toml", "aggregator.key"),
    "install": ("broker install --from KITS/_fleet/broker --dry-run --to .", "KITS/_fleet/broker/broker.key"),
}
#: What these commands rightly make, or need not read.
FINE = {
    ("sweep", "empty"),  # one run
    ("hardware", "empty"),
    ("flashed", "missing"),
    ("flashed", "loop"),
    ("journal", "missing"),
    ("crl", "missing"),
    ("crl", "loop"),
    ("kit.key", "missing"),
    ("aggregator.key", "missing"),
    ("lock", "missing"),
    ("lock", "pipe"),
    ("lock", "empty"),
    ("lock", "garbage"),
    ("lock", "json"),
    ("lock", "toml"),
    ("lock", "sparse"),
    ("lock", "unreadable"),
    ("broker.pem", "missing"),
    ("broker.pem", "loop"),  # is no file: made anew
    ("doctor", "missing"),
}


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fleet")
    provision(manifest(folder))
    make_folder(folder / "card", BOOKWORM)
    (folder / "card" / "edgestill").mkdir()
    return folder


def _hangs(*_: object) -> None:
    raise AssertionError("it hangs")


@pytest.mark.parametrize(
    "kinds", [("garbage", "pipe", "zeros"), pytest.param(tuple(KINDS), marks=pytest.mark.slow)], ids=["some", "all"]
)
@pytest.mark.parametrize("name", COMMANDS)
def test_a_foreign_file_is_one_line(
    name: str,
    kinds: tuple[str, ...],
    fleet: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    command, place = COMMANDS[name]
    for kind in kinds:
        if kind == "unreadable" and os.geteuid() == 0:
            continue
        here, make = tmp_path / kind, KINDS[kind]
        if any(word in f"{command} {place}" for word in ("KITS", "card", "fleet.toml")):
            shutil.copytree(fleet, here, symlinks=True)
        else:
            here.mkdir()
        monkeypatch.chdir(here)
        path = here / place.replace("KITS", "kits")
        path.unlink(missing_ok=True)
        make(path)
        args = [word.replace("KITS", "kits").replace("FILE", str(path)) for word in command.split()]
        signal.signal(signal.SIGALRM, _hangs)
        signal.alarm(120)  # only ends a hang: doctor imports torch, on a busy machine too
        try:
            with pytest.raises(SystemExit) as ended:
                main(args)
        finally:
            signal.alarm(0)
        said = capsys.readouterr().err
        what = f"{kind}: exit {ended.value.code}: {said[:400]}"
        assert "Traceback" not in said, what
        assert "internal error" not in said, what
        assert len(said) < 1000, what
        if (name, kind) not in FINE:
            assert ended.value.code not in (0, None), what
            assert said.count("\n") <= 1 or name == "doctor", what
        shutil.rmtree(here)
