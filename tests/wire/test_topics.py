"""Every topic, spelled and parsed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from paho.mqtt.client import topic_matches_sub

from core.errors import TopicError
from wire.topics import (
    LEAVES,
    DeviceTopic,
    ModelChunk,
    UpdateChunk,
    agent_filters,
    aggregator_filters,
    parse,
)

pytestmark = pytest.mark.light

DIGEST = "0123456789abcdef" * 4
IDS = st.text("abcxyz0189-", min_size=1, max_size=48)
DEVICES = IDS.filter(lambda i: i not in ("all", "aggregator"))
NUMBERS = st.integers(0, 10**9 - 1)
TOPICS = (
    st.builds(DeviceTopic, IDS, DEVICES, st.sampled_from(LEAVES))
    | st.builds(UpdateChunk, IDS, DEVICES, IDS, NUMBERS)
    | st.builds(ModelChunk, IDS, st.text("0123456789abcdef", min_size=64, max_size=64), NUMBERS)
)


@given(TOPICS)
def test_a_topic_parses_back_to_itself_and_fits_strict_brokers(topic):
    text = str(topic)
    assert parse(text) == topic
    assert text.count("/") <= 7
    assert len(text.encode()) <= 256


@given(st.text() | st.text("edgistl/1all+#$upmo0\0é"))
def test_any_text_is_a_topic_or_a_topic_error(text):
    try:
        topic = parse(text)
    except TopicError:
        return
    assert str(topic) == text


@pytest.mark.parametrize(
    ("topic", "text"),
    [
        (DeviceTopic("lab", "pi-07", "state"), "edgestill/1/lab/pi-07/state"),
        (DeviceTopic("lab", "pi-07", "up"), "edgestill/1/lab/pi-07/up"),
        (UpdateChunk("lab", "pi-07", "9f", 12), "edgestill/1/lab/pi-07/up/9f/12"),
        (ModelChunk("lab", DIGEST, 0), f"edgestill/1/lab/all/model/{DIGEST}/0"),
    ],
)
def test_the_spelling_of_each_topic(topic, text):
    assert str(topic) == text
    assert parse(text) == topic


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("", "0 bytes"),
        ("edgestill/1/lab/" + "é" * 130 + "/state", "of 282 bytes"),
        ("edgestill/1/lab/pi\0/state", "NUL"),
        ("edgestill/1/lab/+/state", "wildcard '\\+'"),
        ("edgestill/1/lab/#", "wildcard '#'"),
        ("$SYS/broker/uptime", r"leading '\$'"),
        ("edgestill/2/lab/pi/state", "does not start with edgestill/1/"),
        ("/edgestill/1/lab/pi/state", "does not start"),
        ("edgestill/1/lab/pi/stat", "not one of edgestill's"),
        ("edgestill/1/lab/pi/state/", "not one of edgestill's"),
        ("edgestill/1/lab/pi", "not one of edgestill's"),
        ("edgestill/1//pi/state", "fleet ''"),
        ("edgestill/1/Lab/pi/state", "fleet 'Lab'"),
        ("edgestill/1/lab/pi_7/state", "device 'pi_7'"),
        ("edgestill/1/lab/" + "x" * 49 + "/state", "1 to 48"),
        ("edgestill/1/lab/pi\n/state", "an id is"),
        ("edgestill/1/lab/all/state", "'all': this id is reserved"),
        ("edgestill/1/lab/aggregator/job", "reserved"),
        ("edgestill/1/lab/all/up/t/0", "reserved"),
        ("edgestill/1/lab/pi/model/" + DIGEST + "/0", "not one of"),
        ("edgestill/1/lab/all/model/" + DIGEST.upper() + "/0", "lowercase hex"),
        ("edgestill/1/lab/all/model/" + DIGEST[1:] + "/0", "64 lowercase"),
        ("edgestill/1/lab/pi/up/t/01", "'01' is not a chunk number"),
        ("edgestill/1/lab/pi/up/t/-1", "not a chunk number"),
        ("edgestill/1/lab/pi/up/t/٣", "not a chunk number"),
        ("edgestill/1/lab/pi/up/t/1000000000", "not a chunk number"),
        ("edgestill/1/lab/pi/up/$/0", r"transfer '\$'"),
    ],
)
def test_a_malformed_topic_is_refused_by_the_rule_it_breaks(text, rule):
    with pytest.raises(TopicError, match=rule):
        parse(text)


def test_a_topic_cannot_be_made_malformed():
    with pytest.raises(TopicError, match=r"no 'stat'; did you mean 'state'\?"):
        DeviceTopic("lab", "pi", "stat")
    with pytest.raises(TopicError, match="chunk number True"):
        UpdateChunk("lab", "pi", "t", True)
    with pytest.raises(TopicError, match="chunk number -1"):
        ModelChunk("lab", DIGEST, -1)
    with pytest.raises(TopicError, match="device 7"):
        DeviceTopic("lab", 7, "state")


@given(TOPICS)
def test_each_side_hears_what_the_other_sends_and_a_device_its_own_state(topic):
    text = str(topic)
    up = isinstance(topic, UpdateChunk) or (
        isinstance(topic, DeviceTopic)
        and topic.leaf in ("state", "about", "metrics", "telemetry", "log", "reported", "installing", "enrol", "up")
    )
    assert any(topic_matches_sub(f, text) for f in aggregator_filters(topic.fleet)) is up
    assert not any(topic_matches_sub(f, text) for f in aggregator_filters("elsewhere-9"))
    if not isinstance(topic, ModelChunk):
        down = topic.leaf in ("job", "ack", "state") if isinstance(topic, DeviceTopic) else False
        assert any(topic_matches_sub(f, text) for f in agent_filters(topic.fleet, topic.device)) is down
