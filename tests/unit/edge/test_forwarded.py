from __future__ import annotations

import re
from ipaddress import ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict, CIMultiDictProxy

from rowgate.edge.forwarded import client_address, request_id

PROXIES = (ip_network("10.0.0.0/8"), ip_network("2001:db8:1::/48"))
TRUSTED = "10.0.0.1"
CLIENT = "203.0.113.9"
GIVEN = "0f8fad5b-d9cb-469f-a165-70867728950e"


def forwarded(*lines: str) -> CIMultiDictProxy[str]:
    return CIMultiDictProxy(CIMultiDict([("X-Forwarded-For", line) for line in lines]))


def identified(*ids: str) -> CIMultiDictProxy[str]:
    return CIMultiDictProxy(CIMultiDict([("X-Request-Id", value) for value in ids]))


def test_without_trusted_proxies_the_header_is_not_believed() -> None:
    assert client_address(TRUSTED, forwarded("198.51.100.7"), ()) == TRUSTED


def test_a_peer_that_is_no_proxy_is_the_client_whatever_it_claims() -> None:
    assert client_address(CLIENT, forwarded("198.51.100.7, 10.0.0.2"), PROXIES) == CLIENT


def test_a_trusted_proxy_names_its_client() -> None:
    assert client_address(TRUSTED, forwarded(CLIENT), PROXIES) == CLIENT


def test_a_client_cannot_choose_its_address_by_writing_the_left_of_the_header() -> None:
    assert client_address(TRUSTED, forwarded(f"198.51.100.7, 10.9.9.9, {CLIENT}"), PROXIES) == CLIENT


def test_proxies_in_a_row_are_walked_through() -> None:
    assert client_address(TRUSTED, forwarded(f"{CLIENT}, 10.1.1.1", "2001:db8:1::5"), PROXIES) == CLIENT


def test_lines_of_the_header_are_read_in_order() -> None:
    assert client_address(TRUSTED, forwarded("198.51.100.7", CLIENT), PROXIES) == CLIENT


def test_when_all_are_proxies_the_farthest_is_the_client() -> None:
    assert client_address(TRUSTED, forwarded("10.3.3.3, 10.2.2.2"), PROXIES) == "10.3.3.3"


@pytest.mark.parametrize(
    "entry",
    [
        "unknown",
        "_hidden",
        "",
        "1.2.3",
        "1.2.3.4.5",
        "010.1.1.1",
        "fe80::1%eth0",
        "[2001:db8::1",
        "1.2.3.4:99999999",
        "1.2.3.4\x00",
        "１.2.3.4",
    ],
)
def test_an_entry_that_is_no_address_ends_the_walk(entry: str) -> None:
    assert client_address(TRUSTED, forwarded(f"198.51.100.7, {entry}, 10.2.2.2"), PROXIES) == "10.2.2.2"


def test_a_proxy_without_the_header_is_the_client() -> None:
    assert client_address(TRUSTED, forwarded(), PROXIES) == TRUSTED


@pytest.mark.parametrize(
    ("entry", "address"),
    [
        ("203.0.113.9:51234", CLIENT),
        ("::ffff:203.0.113.9", CLIENT),
        ("[::ffff:203.0.113.9]:443", CLIENT),
        ("[2001:DB8::1]:443", "2001:db8::1"),
        ("2001:db8:0:0::1", "2001:db8::1"),
    ],
)
def test_one_client_has_one_spelling(entry: str, address: str) -> None:
    assert client_address(TRUSTED, forwarded(entry), PROXIES) == address


def test_a_mapped_peer_is_the_proxy_that_it_is() -> None:
    assert client_address("::ffff:10.0.0.1", forwarded(CLIENT), PROXIES) == CLIENT
    assert client_address("::ffff:203.0.113.9", forwarded(), ()) == CLIENT


@pytest.mark.parametrize("peer", [None, "", "/run/rowgate.sock"])
def test_a_unix_peer_is_a_proxy_only_where_proxies_are_trusted(peer: str | None) -> None:
    assert client_address(peer, forwarded(CLIENT), ()) == "unix"
    assert client_address(peer, forwarded(CLIENT), PROXIES) == CLIENT


def test_a_peer_that_makes_no_sense_is_not_trusted() -> None:
    assert client_address("elsewhere", forwarded(CLIENT), PROXIES) == "unknown"


@given(st.lists(st.text() | st.ip_addresses().map(str), max_size=6))
def test_whatever_is_forwarded_the_answer_is_an_address(lines: list[str]) -> None:
    address = client_address(TRUSTED, forwarded(*lines), PROXIES)
    assert str(ip_address(address)) == address


@given(st.lists(st.text() | st.ip_addresses().map(str), max_size=6))
def test_whatever_a_client_prepends_the_proxy_wrote_last(lines: list[str]) -> None:
    assert client_address(TRUSTED, forwarded(*lines, CLIENT), PROXIES) == CLIENT


def test_a_trusted_proxys_request_id_is_kept() -> None:
    assert request_id(TRUSTED, identified(GIVEN), PROXIES) == GIVEN


def test_a_clients_request_id_is_not_believed() -> None:
    assert request_id(CLIENT, identified(GIVEN), PROXIES, mint=lambda: "minted") == "minted"
    assert request_id(TRUSTED, identified(GIVEN), (), mint=lambda: "minted") == "minted"


@pytest.mark.parametrize(
    "value", ["", "short", "a" * 40, "with space1", "line\nbreak", 'quote"quote', "ünïcode-id", GIVEN + "\n"]
)
def test_a_request_id_that_is_not_sane_is_replaced(value: str) -> None:
    assert request_id(TRUSTED, identified(value), PROXIES, mint=lambda: "minted") == "minted"


def test_two_request_ids_are_replaced() -> None:
    assert request_id(TRUSTED, identified(GIVEN, GIVEN), PROXIES, mint=lambda: "minted") == "minted"


def test_a_minted_id_has_128_bits_and_is_new_each_time() -> None:
    minted = {request_id(CLIENT, identified(), ()) for _ in range(100)}
    assert len(minted) == 100
    assert all(re.fullmatch("[0-9a-f]{32}", value) for value in minted)
