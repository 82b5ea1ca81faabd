"""Names of architectures, and users' packages that bring their own."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from core.errors import ConfigError
from models.registry import architecture, check_name, names
from models.zoo import ZOO

pytestmark = pytest.mark.light
Install = Callable[[str, str, dict[str, str]], None]
NET = "def net(layers, input_shape):\n    return (layers, input_shape)\n"


def test_the_zoo_has_the_promised_names() -> None:
    promised = "mlp fedrad_mlp cnn mcmahan_cnn resnet8 resnet20 resnet32 resnet8-gn resnet20-gn resnet32-gn vgg9"
    assert set(ZOO) == {*promised.split(), "shufflenetv2", "mobilenetv2", "text", "distilbert"}


def test_an_unknown_name_is_refused_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"unknown architecture 'vgg8'; did you mean 'vgg9'\?"):
        check_name("vgg8")


def test_a_name_near_to_nothing_is_refused_with_the_list() -> None:
    with pytest.raises(ConfigError, match="unknown architecture 'qqqq'; known: mlp fedrad_mlp cnn"):
        architecture("qqqq")


def test_a_users_package_brings_its_model(install: Install) -> None:
    install("userpack", NET, {"usernet": "userpack:net"})
    assert names()[-1] == "usernet"
    assert names()[:-1] == tuple(ZOO)
    assert architecture("usernet")("layers", (3,)) == ("layers", (3,))


def test_a_users_name_is_suggested_too(install: Install) -> None:
    install("userpack2", NET, {"peculiarnet": "userpack2:net"})
    with pytest.raises(ConfigError, match="did you mean 'peculiarnet'"):
        check_name("peculiarnett")


@pytest.mark.parametrize(
    ("source", "target", "reason"),
    [
        ("import no_such_module\n", "{}:net", r"ModuleNotFoundError: No module named 'no_such_module'"),
        ("x = 1 / 0\n", "{}:net", "ZeroDivisionError: division by zero"),
        (NET, "{}:nett", "AttributeError: .*nett"),
    ],
    ids=["missing import", "raises on import", "missing function"],
)
def test_a_broken_entry_point_is_one_line_that_names_it(
    install: Install, source: str, target: str, reason: str, request: pytest.FixtureRequest
) -> None:
    package = "broken_" + request.node.callspec.id.split()[0]
    install(package, source, {"brokennet": target.format(package)})
    check_name("brokennet")  # listing loads nothing
    with pytest.raises(ConfigError, match=rf"entry point '{package}:nett?' of {package}: .*{reason}") as caught:
        architecture("brokennet")
    assert "\n" not in str(caught.value)


def test_an_entry_point_that_is_no_function_is_refused(install: Install) -> None:
    install("constpack", "net = 3\n", {"constnet": "constpack:net"})
    with pytest.raises(ConfigError, match="'constnet' is not a function but a int"):
        architecture("constnet")


def test_two_packages_with_one_name_are_refused(install: Install) -> None:
    install("packone", NET, {"twicenet": "packone:net"})
    install("packtwo", NET, {"twicenet": "packtwo:net"})
    with pytest.raises(
        ConfigError, match=r"'twicenet' comes from .*pack(one|two).* and .*pack(two|one).*uninstall one"
    ):
        architecture("twicenet")


def test_a_users_package_cannot_take_a_name_of_the_zoo(install: Install) -> None:
    install("thief", NET, {"cnn": "thief:net"})
    with pytest.raises(ConfigError, match="thief: 'cnn' is a name of the zoo; rename"):
        architecture("cnn")
    assert names() == tuple(ZOO)


def test_names_specs_roles_and_tokenizers_import_no_torch() -> None:
    code = (
        "import sys, models.registry, models.roles, models.spec, models.text.tokenizer, models.zoo; "
        "models.spec.parse_prototype('resnet8-gn:w1'); print('torch' in sys.modules)"
    )
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=root, check=True)
    assert done.stdout.strip() == "False"
