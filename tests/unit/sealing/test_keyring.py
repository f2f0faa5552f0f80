import base64
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.sealing import KeyRing, SealBroken

RING = KeyRing({"k1": bytes(range(32)), "k0": bytes(32)}, "k1")
RECORD = "binding:7:token"
TOKEN = "123456:AAE-very-secret"


@given(text=st.text(), record=st.text())
def test_what_is_sealed_opens_for_its_record(text: str, record: str) -> None:
    assert RING.open(RING.seal(text, record=record), record=record) == text


@given(text=st.text(min_size=1))
def test_a_sealed_value_never_holds_the_text_and_never_repeats(text: str) -> None:
    first, second = RING.seal(text, record=RECORD), RING.seal(text, record=RECORD)
    assert first != second
    assert len(text) < 4 or text not in first


@given(st.data())
def test_one_changed_character_breaks_the_seal(data: st.DataObject) -> None:
    sealed = RING.seal(TOKEN, record=RECORD)
    at = data.draw(st.integers(0, len(sealed) - 1))
    other = data.draw(st.characters(codec="ascii").filter(lambda one: one != sealed[at]))
    with pytest.raises(SealBroken) as broken:
        RING.open(sealed[:at] + other + sealed[at + 1 :], record=RECORD)
    assert TOKEN not in str(broken.value)


def test_every_changed_bit_of_the_body_breaks_the_seal() -> None:
    head, _, body = RING.seal(TOKEN, record=RECORD).rpartition(".")
    blob = base64.urlsafe_b64decode(body)
    for bit in range(len(blob) * 8):
        changed = bytearray(blob)
        changed[bit // 8] ^= 1 << bit % 8
        with pytest.raises(SealBroken, match="was changed"):
            RING.open(f"{head}.{base64.urlsafe_b64encode(changed).decode()}", record=RECORD)


@given(st.text())
def test_anything_else_is_a_broken_seal(text: str) -> None:
    with pytest.raises(SealBroken):
        RING.open(text, record=RECORD)


def test_a_value_copied_to_another_record_does_not_open() -> None:
    sealed = RING.seal(TOKEN, record="binding:7:token")
    with pytest.raises(SealBroken, match="belongs to another record"):
        RING.open(sealed, record="binding:8:token")


def test_the_text_of_an_error_holds_no_part_of_the_value() -> None:
    sealed = RING.seal(TOKEN, record=RECORD)
    stranger = KeyRing({"z9": os.urandom(32)}, "z9")
    for opener, value in ((RING, sealed[:-4]), (stranger, sealed), (RING, f"v1.{TOKEN}.x")):
        with pytest.raises(SealBroken) as broken:
            opener.open(value, record=RECORD)
        assert TOKEN not in str(broken.value)
        assert sealed.rpartition(".")[2][:8] not in str(broken.value)


def test_a_missing_key_is_named() -> None:
    stranger = KeyRing({"z9": os.urandom(32)}, "z9")
    with pytest.raises(SealBroken, match="sealed with the key k1, which is not in the key ring"):
        stranger.open(RING.seal(TOKEN, record=RECORD), record=RECORD)


def test_a_rotated_ring_opens_old_values_and_seals_with_the_new_key() -> None:
    old = RING.seal(TOKEN, record=RECORD)
    rotated = RING.rotated()
    new = rotated.seal(TOKEN, record=RECORD)
    assert rotated.open(old, record=RECORD) == rotated.open(new, record=RECORD) == TOKEN
    assert rotated.active not in RING.ids
    assert (rotated.is_current(old), rotated.is_current(new)) == (False, True)
    with pytest.raises(SealBroken):
        RING.open(new, record=RECORD)


@given(
    st.dictionaries(
        st.from_regex(r"\A[A-Za-z0-9_-]{1,32}\Z"), st.binary(min_size=32, max_size=32), min_size=1
    )
)
def test_a_ring_survives_its_text(keys: dict[str, bytes]) -> None:
    ring = KeyRing(keys, next(iter(keys)))
    again = KeyRing.from_text(ring.to_text())
    assert again.ids == ring.ids
    assert again.to_text() == ring.to_text()
    assert again.open(ring.seal(TOKEN, record=RECORD), record=RECORD) == TOKEN


def test_printing_a_ring_shows_ids_only() -> None:
    assert repr(RING) == "KeyRing(k1, k0)"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "there is no key"),
        ("# only a comment\n", "there is no key"),
        ("k1:AAAA\n", "line 1 is not"),
        ("k1\n", "line 1 is not"),
        ("\nk one:" + base64.b64encode(bytes(32)).decode(), "line 2 is not"),
        (f"k1:{base64.b64encode(bytes(32)).decode()}\n" * 2, "line 2 repeats"),
        ("k1:" + "é" * 44, "line 1 is not"),
    ],
)
def test_a_text_that_is_no_ring_is_told_by_its_line(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        KeyRing.from_text(text)


@pytest.mark.parametrize(
    ("keys", "active"), [({}, "k1"), ({"k1": b"short"}, "k1"), ({"k.1": bytes(32)}, "k.1")]
)
def test_a_senseless_ring_is_refused(keys: dict[str, bytes], active: str) -> None:
    with pytest.raises(ValueError, match="key"):
        KeyRing(keys, active)
