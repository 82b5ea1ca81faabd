"""The fault proxy does what it is told, and nothing else."""

import socket
import threading
import time
from collections.abc import Iterator

import pytest

from tests.brokers import broker  # noqa: F401
from tests.proxy import Proxy, _Packets
from tests.transport.events import eventually, wait_for
from transport.config import BrokerConfig
from transport.link import Connected, Disconnected, Link, Received

pytestmark = pytest.mark.light


class Echo:
    """Sends back what it gets."""

    def __init__(self) -> None:
        self.received = bytearray()
        self.server = socket.create_server(("127.0.0.1", 0))
        self.port = self.server.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self.server.accept()
            except OSError:
                return
            threading.Thread(target=self._echo, args=(connection,), daemon=True).start()

    def _echo(self, connection: socket.socket) -> None:
        with connection:
            try:
                while data := connection.recv(65536):
                    self.received += data
                    connection.sendall(data)
            except OSError:
                return


@pytest.fixture
def echo() -> Iterator[Echo]:
    server = Echo()
    yield server
    server.server.close()


def talk(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=60)


def read(sock: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count and (more := sock.recv(count - len(data))):
        data += more
    return data


def test_without_faults_every_byte_passes_and_is_counted(echo: Echo) -> None:
    data = bytes(range(256)) * 1000
    with Proxy(echo.port) as proxy, talk(proxy.port) as sock:
        threading.Thread(target=sock.sendall, args=(data,), daemon=True).start()
        assert read(sock, len(data)) == data
        assert (proxy.bytes_up, proxy.bytes_down) == (256_000, 256_000)
        assert (proxy.connections, proxy.cuts) == (1, 0)


def test_each_connection_is_cut_after_so_many_bytes_and_not_before(echo: Echo) -> None:
    with Proxy(echo.port, cut_every=100) as proxy:
        for _ in range(2):
            with talk(proxy.port) as sock:
                sock.sendall(b"x" * 40)
                assert read(sock, 40) == b"x" * 40
                sock.sendall(b"x" * 15)
                assert read(sock, 15) == b"x" * 5  # 40 + 40 + 15 + 5
        assert proxy.cuts == 2
        assert proxy.connections == 2


def test_a_cut_can_leave_half_of_what_was_sent(echo: Echo) -> None:
    with Proxy(echo.port, cut_every=30) as proxy, talk(proxy.port) as sock:
        sock.sendall(b"y" * 50)
        assert sock.recv(10) == b""
        assert eventually(lambda: bytes(echo.received) == b"y" * 30)


def test_chance_cuts_are_the_same_for_the_same_seed(echo: Echo) -> None:
    def lives(seed: int) -> list[int]:
        counts = []
        with Proxy(echo.port, seed=seed, cut_chance=0.2) as proxy:
            for _ in range(5):
                with talk(proxy.port) as sock:
                    count = 0
                    try:
                        while count < 100:
                            sock.sendall(b"z")
                            if not sock.recv(1):
                                break
                            count += 1
                    except ConnectionError:
                        pass
                    counts.append(count)
        return counts

    assert lives(1) == lives(1)
    assert lives(1) != lives(2)


def test_delay_is_latency_and_not_a_limit_of_throughput(echo: Echo) -> None:
    with Proxy(echo.port, delay_s=0.1) as proxy, talk(proxy.port) as sock:
        started = time.monotonic()
        sock.sendall(b"x")
        assert read(sock, 1) == b"x"
        assert time.monotonic() - started >= 0.2
    with Proxy(echo.port, delay_s=3600) as proxy, talk(proxy.port) as sock:
        threading.Thread(target=sock.sendall, args=(bytes(1_000_000),), daemon=True).start()
        assert eventually(lambda: proxy.bytes_up == 1_000_000)  # all of it is read while none has arrived
        assert proxy.bytes_down == 0


def test_pause_holds_everything_back_and_resume_lets_it_go(echo: Echo) -> None:
    with Proxy(echo.port) as proxy, talk(proxy.port) as sock:
        proxy.pause()
        sock.sendall(b"held")
        sock.settimeout(0.3)
        with pytest.raises(TimeoutError):
            sock.recv(1)
        sock.settimeout(60)
        proxy.resume()
        assert read(sock, 4) == b"held"


def test_cut_breaks_all_connections(echo: Echo) -> None:
    with Proxy(echo.port) as proxy, talk(proxy.port) as a, talk(proxy.port) as b:
        a.sendall(b"1")
        b.sendall(b"1")
        assert read(a, 1) == read(b, 1) == b"1"
        proxy.cut()
        assert a.recv(1) == b.recv(1) == b""
        assert proxy.cuts == 2


def test_a_broker_that_is_gone_closes_the_client_too() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with Proxy(port) as proxy, talk(proxy.port) as sock:
        assert sock.recv(1) == b""


def test_packets_are_found_in_any_slices() -> None:
    packets = [b"\xc0\x00", b"\x30\x80\x01" + bytes(128), b"\xe0\x00", b"\x30\x02ab"]
    stream = b"".join(packets)
    for size in (1, 2, 3, 50, 1000):
        splitter = _Packets()
        found = [p for i in range(0, len(stream), size) for p in splitter.feed(stream[i : i + size])]
        assert found == packets


def test_published_messages_are_doubled_either_way(broker) -> None:  # noqa: F811
    with Proxy(broker.port, duplicate=1.0) as proxy, Link(proxy.config, client_id="a", filters=["t/+"]) as link:
        wait_for(link, Connected)
        for qos in (0, 1):
            assert link.publish(f"t/{qos}", b"x", qos=qos)
            for _ in range(4):  # twice to the broker, each of them twice back
                assert wait_for(link, Received).topic == f"t/{qos}"
        assert link.publish("t/0", b"y", qos=0)
        assert wait_for(link, Received).payload == b"y"
        assert proxy.duplicates >= 6
        assert link.connected


def test_neighbours_of_qos_0_are_swapped_and_others_keep_their_places(echo: Echo) -> None:
    first, second, ping, qos1 = b"\x30\x04\x00\x01t1", b"\x30\x04\x00\x01t2", b"\xc0\x00", b"\x32\x05\x00\x01t\x00\x07"
    with Proxy(echo.port, swap=1.0) as proxy, talk(proxy.port) as sock:
        sock.sendall(qos1 + first + second + ping)
        assert eventually(lambda: bytes(echo.received) == qos1 + second + first + ping)
        assert proxy.swaps >= 1


def test_a_link_lives_through_the_cuts(broker) -> None:  # noqa: F811
    with Proxy(broker.port) as proxy, Link(BrokerConfig(port=proxy.port), client_id="a", filters=["t"]) as link:
        for cuts in range(1, 4):
            wait_for(link, Connected)
            proxy.cut()
            wait_for(link, Disconnected)
            assert proxy.cuts == cuts
