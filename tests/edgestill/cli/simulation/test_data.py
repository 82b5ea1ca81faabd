"""`edgestill data`: list, fetch and show, as a user runs them."""

import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from typer.testing import CliRunner

from core.errors import ConfigError, DataError
from edgestill.cli import output
from edgestill.cli.main import main
from edgestill.cli.simulation.data import app
from fleet.data.download.sources import SOURCES, RemoteFile

ROOT = Path(__file__).resolve().parents[4]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Run `edgestill data ...` in an empty folder; errors of ours propagate, as `main` wants them to."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(output.out, "width", 200)

    def call(*args: str) -> str:
        done = CliRunner().invoke(app, list(args), catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done.stdout

    return call


def test_list_tells_what_is_here_and_how_to_get_the_rest(run: Any, monkeypatch: Any, tmp_path: Path) -> None:
    monkeypatch.setenv("EDGESTILL_DATA", str(tmp_path))
    lines = {line.split()[0]: line for line in run("list").splitlines() if line.strip()}
    assert lines["digits"].split() == ["digits", "image", "1x8x8", "10", "1,438", "359", "full"]
    assert lines["mnist"].split() == ["mnist", "image", "1x28x28", "10", "no"]
    assert lines["to"] == "to download a dataset: edgestill data fetch NAME"
    assert str(tmp_path) in lines["searched:"]


def test_list_as_json_is_one_document(run: Any, monkeypatch: Any, tmp_path: Path) -> None:
    monkeypatch.setenv("EDGESTILL_DATA", str(tmp_path))
    (tmp_path / "cifar100").mkdir()
    (tmp_path / "cifar100" / "cifar100_subset.npz").touch()
    facts = {fact["name"]: fact for fact in json.loads(run("list", "--json"))}
    assert facts["mnist"] == {
        "name": "mnist",
        "kind": "image",
        "shape": [1, 28, 28],
        "classes": 10,
        "train": None,
        "test": None,
        "where": None,
        "variant": None,
        "get": "edgestill data fetch mnist",
    }
    assert (facts["cifar100"]["variant"], facts["cifar100"]["train"]) == ("subset", 10_000)
    assert facts["cifar100"]["where"] == str(tmp_path / "cifar100")
    assert facts["digits"]["get"] is None


def test_the_sizes_that_list_gives_for_digits_are_those_that_load_gives(run: Any) -> None:
    from fleet.data import load

    fact = json.loads(run("list", "--json"))[0]
    assert (fact["train"], fact["test"]) == (len(load("digits").y_train), len(load("digits").y_test))


def test_show_prints_every_device_and_draws(run: Any, tmp_path: Path) -> None:
    text = run("show", "digits", "--devices", "6", "--alpha", "0.5", "--out", "split.png")
    rows = [line.split() for line in text.splitlines()[1:] if line[:1].isdigit()]
    assert [row[0] for row in rows[:6]] == list("012345")
    assert "6 devices hold 1,438 samples" in text
    assert "wrote split.png" in text
    with Image.open(tmp_path / "split.png") as image:
        assert image.format == "PNG"


def test_show_draws_into_a_named_file_by_default(run: Any, tmp_path: Path) -> None:
    assert "wrote digits-iid.png" in run("show", "digits", "--devices", "3", "--partition", "iid")
    assert (tmp_path / "digits-iid.png").stat().st_size > 1000


def test_show_as_json_has_the_counts_and_draws_nothing(run: Any, tmp_path: Path) -> None:
    facts = json.loads(run("show", "digits", "--devices", "4", "--alpha", "0.5", "--json"))
    assert (facts["partition"], facts["alpha"], facts["seed"], facts["train"]) == ("dirichlet", 0.5, 0, 1438)
    assert len(facts["devices"]) == 4
    assert all(device["samples"] == sum(device["counts"]) for device in facts["devices"])
    assert sum(device["samples"] for device in facts["devices"]) == 1438
    assert list(tmp_path.iterdir()) == []


def test_show_passes_options_to_the_partition(run: Any) -> None:
    shards = ["show", "digits", "--devices", "5", "--partition", "shards", "--json"]
    held = [
        max(sum(count > 20 for count in device["counts"]) for device in json.loads(run(*shards, *more))["devices"])
        for more in ([], ["--option", "classes_per_device=6"])
    ]
    assert held[0] <= 2 < held[1]


def test_show_says_what_it_left_out_of_the_table(run: Any) -> None:
    text = run("show", "digits", "--devices", "60", "--partition", "iid")
    assert "… and 10 more; --json has all" in text


def test_show_reads_a_users_own_file(run: Any, tmp_path: Path) -> None:
    (tmp_path / "own.csv").write_text("label,a\n" + "".join(f"{'xy'[i % 2]},{i}\n" for i in range(40)))
    facts = json.loads(run("show", "own.csv", "--devices", "2", "--partition", "shards", "--json"))
    assert (facts["class_names"], facts["alpha"]) == (["x", "y"], None)


@pytest.mark.parametrize(
    ("args", "error", "says"),
    [
        (["show", "digitz"], ConfigError, "did you mean 'digits'"),
        (["show", "digits", "--partition", "dirichle"], ConfigError, "did you mean 'dirichlet'"),
        (["show", "digits", "--option", "min_sise=1"], ConfigError, "did you mean 'min_size'"),
        (["show", "digits", "--option", "min_size"], ConfigError, "give NAME=VALUE"),
        (["show", "digits", "--devices", "0"], ConfigError, "give at least 1"),
        (["show", "digits", "--alpha", "-1"], ConfigError, "give at least 1e-06"),
        (["show", "digits", "--out", "split.pdf"], ConfigError, r"ends in \.png"),
        (["show", "digits", "--out", "none/split.png"], ConfigError, "there is no folder none"),
        (["show", "none.csv"], DataError, "no such file"),
        (["fetch", "digits"], ConfigError, "comes with scikit-learn"),
        (["fetch", "mnist", "--mirror", "ftp://x/"], ConfigError, "http:// or https://"),
    ],
)
def test_mistakes_are_told_in_one_line(run: Any, args: list[str], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says) as caught:
        run(*args)
    assert "\n" not in str(caught.value)


@pytest.fixture
def mirror(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A mirror that holds a tiny stand-in for SST-2, and the table of sources that says so."""
    folder = tmp_path_factory.mktemp("mirror")
    (folder / "SST-2.zip").write_bytes(b"stand-in")
    digest = f"md5:{hashlib.md5(b'stand-in', usedforsecurity=False).hexdigest()}"
    file = RemoteFile("SST-2.zip", digest, ("http://mirror.invalid/",))
    monkeypatch.setattr("fleet.data.download.fetch.SOURCES", {**SOURCES, "sst2": (file,)})
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/"
    server.shutdown()
    server.server_close()
    thread.join()


def test_fetch_writes_into_the_data_folder(run: Any, mirror: str, monkeypatch: Any, tmp_path: Path) -> None:
    monkeypatch.setenv("EDGESTILL_DATA", str(tmp_path / "data"))
    text = run("fetch", "sst2", "--mirror", mirror)
    assert text == f"sst2: 1 file in {tmp_path / 'data' / 'sst2'}\n"
    assert (tmp_path / "data" / "sst2" / "SST-2.zip").read_bytes() == b"stand-in"


def test_fetch_elsewhere_says_how_to_use_it(run: Any, mirror: str, tmp_path: Path) -> None:
    text = run("fetch", "sst2", "--mirror", mirror, "--to", "elsewhere")
    assert f"export EDGESTILL_DATA={tmp_path / 'elsewhere'}" in text


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from edgestill.cli.simulation.data import app; "
        "print([m for m in ('torch', 'matplotlib', 'sklearn', 'PIL', 'numpy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.strip() == "[]"


def test_a_picture_is_written_to_what_a_link_names_and_never_over_a_device(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "link.png").symlink_to("real.png")
    os.mkfifo(tmp_path / "pipe.png")
    for name, code in (("link.png", 0), ("pipe.png", 1)):
        with pytest.raises(SystemExit) as ended:
            main(["data", "show", "digits", "--out", str(tmp_path / name)])
        assert ended.value.code == code
    assert (tmp_path / "link.png").is_symlink()
    assert (tmp_path / "real.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "pipe.png").is_fifo()
    assert "not a plain file, and not replaced by one" in capsys.readouterr().err
