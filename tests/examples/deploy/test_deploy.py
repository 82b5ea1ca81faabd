"""Dockerfile and compose.yaml: read by Docker's own parser and the schema of compose files, and built without Docker.

No container runtime is needed: the steps of the Dockerfile are executed in a chroot, an overlay over this machine in
namespaces of its own, and the result serves a fleet there.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import dockerfile
import pytest
import yaml

from tests.aggregator.running import wait_until
from tests.test_layering import ORDER
from transport.config import BrokerConfig

ROOT = Path(__file__).resolve().parents[3]
DEPLOY = ROOT / "examples/deploy"


def steps() -> list[Any]:
    return list(dockerfile.parse_file(str(DEPLOY / "Dockerfile")))


def of(command: str) -> list[tuple[str, ...]]:
    return [step.value for step in steps() if step.cmd == command]


def compose() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    return found


def test_the_image_has_every_package_and_nothing_else_of_the_folder() -> None:
    copied = {name for step in steps() if step.cmd == "COPY" and not step.flags for name in step.value[:-1]}
    assert copied == {*ORDER, "pyproject.toml", "constraints.txt", "README.md", "LICENSE"}
    assert all((ROOT / name).exists() for name in copied)
    lines = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    assert "*" in lines
    assert {line[1:] for line in lines if line.startswith("!")} == copied
    assert of("ADD") == []


def test_it_runs_as_nobody_in_particular_and_says_whether_it_is_well() -> None:
    assert of("USER") == [("10001:10001",)]
    last = max(number for number, step in enumerate(steps()) if step.cmd == "RUN")
    assert next(number for number, step in enumerate(steps()) if step.cmd == "USER") > last
    (check,) = of("HEALTHCHECK")
    assert "/healthz" in check[-1]
    assert of("ENTRYPOINT") == [("/opt/edgestill/bin/edgestill",)], "no shell: the service gets the signals"
    assert {name.partition("=")[0] for (name,) in of("ARG")} == {"PYTHON", "VARIANT", "TORCH_INDEX"}


def test_compose_is_valid_by_its_schema() -> None:
    check = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec"]
    done = subprocess.run([*check, DEPLOY / "compose.yaml"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_services_have_few_rights_and_pinned_images() -> None:
    services = compose()["services"]
    assert set(services) == {"aggregator", "mosquitto", "prometheus", "grafana"}
    for name, service in services.items():
        assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"]), name
        assert service["security_opt"] == ["no-new-privileges:true"]
        version = service["image"].partition(":")[2]
        assert version not in ("", "latest"), name
        published = [port for port in service.get("ports", ()) if not port.startswith("127.0.0.1:")]
        assert published == (["8883:8883"] if name == "mosquitto" else []), "only the broker is for others"


def test_what_compose_mounts_is_here_or_made_by_the_operator() -> None:
    made = {"./fleet", "./state"}
    sources = [volume.split(":")[0] for service in compose()["services"].values() for volume in service["volumes"]]
    folders = [source for source in sources if source.startswith(".") and source not in made]
    assert len(folders) == 6
    for source in folders:
        assert (DEPLOY / source).exists(), source
    assert {source for source in sources if source[0] != "."} == set(compose()["volumes"])
    build = compose()["services"]["aggregator"]["build"]
    assert (DEPLOY / build["context"] / build["dockerfile"]).samefile(DEPLOY / "Dockerfile")
    assert set(build["args"]) == {"VARIANT", "TORCH_INDEX"}


def test_prometheus_scrapes_the_aggregator_and_grafana_reads_prometheus(tmp_path: Path) -> None:
    config = yaml.safe_load((DEPLOY / "prometheus/prometheus.yml").read_text())
    (job,) = config["scrape_configs"]
    (environment,) = of("ENV")
    metrics = environment[environment.index("EDGESTILL_AGGREGATOR_MONITOR_METRICS") + 1]
    assert job["static_configs"] == [{"targets": [f"aggregator:{metrics.rpartition(':')[2]}"]}]
    (source,) = yaml.safe_load((DEPLOY / "grafana/datasources/prometheus.yml").read_text())["datasources"]
    assert (source["type"], source["url"], source["isDefault"]) == ("prometheus", "http://prometheus:9090", True)
    (provider,) = yaml.safe_load((DEPLOY / "grafana/dashboards/edgestill.yml").read_text())["providers"]
    mounts = [volume.split(":") for volume in compose()["services"]["grafana"]["volumes"]]
    (dashboard,) = (Path(inside) for _, inside, *_ in mounts if inside.endswith(".json"))
    assert dashboard.parent == Path(provider["options"]["path"])
    if shutil.which("promtool"):
        shutil.copy(DEPLOY / "prometheus/prometheus.yml", tmp_path)
        shutil.copy(ROOT / "examples/monitoring/alerts.yml", tmp_path)
        subprocess.run(["promtool", "check", "config", tmp_path / "prometheus.yml"], check=True, capture_output=True)


@pytest.mark.broker
def test_the_brokers_files_are_installed_where_the_container_sees_them(tmp_path: Path) -> None:
    from firmware_configs.provision import provision
    from tests.firmware_configs.fleets import FLEET, manifest

    made = manifest(tmp_path, fleet=FLEET + "\n[broker]\nhost = '127.0.0.1'\n")
    provision(made)
    to = tmp_path / "mosquitto"
    shutil.copytree(DEPLOY / "mosquitto", to)
    script = made.out / "_fleet/broker/install.sh"
    words = ["--to", to, "--as", "/mosquitto/config", "--owner", "", "--form", "2.1", "--no-try"]
    subprocess.run(["sh", script, *words], check=True, capture_output=True)
    conf = (to / "conf.d/edgestill.conf").read_text()
    port = compose()["services"]["mosquitto"]["ports"][0].partition(":")[2]
    assert f"\nlistener {port}\n" in conf
    assert "keyfile /mosquitto/config/edgestill/broker.key" in conf


ENTER = """
set -eu
mount -t overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" overlay "$1/root"
mount --bind /dev "$1/root/dev"
mount -t proc proc "$1/root/proc"
exec chroot "$1/root" /usr/bin/env -i /bin/sh -euc "$2"
"""
needs_root = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("unshare") is None,
    reason="only root makes a chroot: THE DOCKERFILE IS NOT EXECUTED",
)


class Image:
    """A folder over this machine's root, in which the steps of a Dockerfile are executed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("upper", "work", "root"):
            (folder / name).mkdir()
        # where python of the base image is, and pip's settings of this machine
        base = Path(sys.base_prefix) / "bin"
        self.environment = {
            "PATH": f"{base}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": "/root",
        }
        self.environment |= {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
        self.directory = "/"
        self.user = ""

    def command(self, text: str) -> list[str]:
        """`text` in the chroot, as `unshare` starts it."""
        settings = " ".join(f"{name}={shlex.quote(value)}" for name, value in self.environment.items())
        inside = f"mkdir -p {self.directory}; cd {self.directory}; export {settings}; {text}"
        isolated = ["unshare", "--mount", "--pid", "--fork", "--kill-child"]
        return [*isolated, "/bin/sh", "-c", ENTER, "image", str(self.folder), inside]

    def run(self, text: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(self.command(text), capture_output=True, text=True, check=False)

    def execute(self, step: Any, arguments: dict[str, str]) -> None:
        match step.cmd:
            case "ARG":
                name, _, value = step.value[0].partition("=")
                self.environment[name] = arguments.get(name, value)
            case "WORKDIR":
                self.directory = step.value[0]
            case "ENV":
                pairs = zip(step.value[::2], step.value[1::2], strict=True)
                self.environment |= {k: v.replace("$PATH", self.environment["PATH"]) for k, v in pairs}
            case "USER":
                self.user = step.value[0]
            case "COPY" if not step.flags:  # those of another stage are there already
                for name in step.value[:-1]:
                    self._copy(name, step.value[-1])
            case "RUN":
                done = self.run(step.value[0])
                assert done.returncode == 0, f"{step.value[0]}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"

    def _copy(self, name: str, to: str) -> None:
        target = (self.folder / "upper" / self.directory.lstrip("/") / to).resolve()
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            target.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, target)


@needs_root
@pytest.mark.slow
def test_the_steps_of_the_dockerfile_make_an_aggregator_that_serves(tmp_path: Path) -> None:
    """Slow: installs torch and all the rest into a new environment, then serves a fleet from it as user 10001."""
    from tests.aggregator.scripted import write_fleet
    from transport.embedded import EmbeddedBroker

    image = Image(tmp_path)
    for folder in (Path(sys.base_prefix), *Path(sys.base_prefix).parents):  # Python may be in somebody's home
        assert image.run(f"chmod o+rx {folder}").returncode == 0
    for step in steps():
        image.execute(step, {})
    image.environment = {name: value for name, value in image.environment.items() if not name.startswith("PIP_")}
    upper = tmp_path / "upper"
    assert (upper / "var/lib/edgestill").stat().st_uid == 10001
    assert "edgestill:x:10001:10001:" in (upper / "etc/passwd").read_text()
    with EmbeddedBroker() as broker:
        config = write_fleet(upper / "etc/edgestill", BrokerConfig(port=broker.port), ["a"])
        assert config.name == "fleet.toml"
        for path in (config.parent, *config.parent.iterdir()):
            os.chown(path, 10001, 10001)
        as_user = "setpriv --reuid 10001 --regid 10001 --clear-groups --no-new-privs"
        ((entry,), words, (_, *check)) = of("ENTRYPOINT")[0], of("CMD")[0], of("HEALTHCHECK")[0]
        with (tmp_path / "log").open("wb") as log:
            command = image.command(f"exec {as_user} {entry} {shlex.join(words)}")
            process = subprocess.Popen(command, stdout=log, stderr=log)
        said = lambda: (tmp_path / "log").read_text()[-3000:]  # noqa: E731
        try:
            service = child_of(process.pid)
            healthy = ["chroot", f"/proc/{service}/root", "/usr/bin/env", "-i", *check]  # in the same container
            wait_until(lambda: subprocess.run(healthy, capture_output=True, check=False).returncode == 0, 300, said)
            status = upper / "var/lib/edgestill/status.json"
            wait_until(lambda: status.exists() and json.loads(status.read_text())["connected"], 120, said)
            assert status.stat().st_uid == 10001
            os.kill(service, signal.SIGTERM)  # as STOPSIGNAL says, to process 1 of the container
            assert process.wait(120) == 0, said()
        finally:
            process.kill()
            process.wait(120)


def child_of(pid: int) -> int:
    """The process that unshare has started; unshare itself heeds no SIGTERM."""
    children = Path(f"/proc/{pid}/task/{pid}/children")
    wait_until(lambda: bool(children.read_text()), 120)
    return int(children.read_text().split()[0])
