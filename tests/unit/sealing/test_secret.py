import json
import pickle
from collections.abc import Callable
from dataclasses import dataclass

import msgspec
import orjson
import pytest

from shared.sealing import Secret

VALUE = "123456:AAE"


def test_printing_shows_a_mask() -> None:
    secret = Secret(VALUE)
    shown = [
        str(secret),
        repr(secret),
        f"{secret}",
        f"{secret!r:>40}",
        f"{secret:>40}",
        repr([secret]),
    ]
    assert all(VALUE not in text and "[secret]" in text for text in shown)


def test_a_record_that_holds_it_prints_a_mask() -> None:
    @dataclass
    class Login:
        password: Secret

    assert VALUE not in repr(Login(Secret(VALUE)))


@pytest.mark.parametrize(
    "encode", [json.dumps, orjson.dumps, msgspec.json.encode, msgspec.msgpack.encode, pickle.dumps]
)
def test_no_serializer_writes_it(encode: Callable[[object], object]) -> None:
    with pytest.raises(TypeError) as refused:
        encode({"token": Secret(VALUE)})
    assert VALUE not in str(refused.value)


def test_it_has_no_attributes_that_show_it() -> None:
    with pytest.raises(TypeError):
        vars(Secret(VALUE))


def test_revealing_gives_it_out() -> None:
    assert Secret(VALUE).reveal() == VALUE


def test_secrets_compare_and_hash_by_value() -> None:
    assert Secret(VALUE) == Secret(VALUE)
    assert Secret(VALUE) != Secret("other")
    assert Secret(VALUE) != VALUE
    assert len({Secret(VALUE), Secret(VALUE)}) == 1
    assert (bool(Secret("")), bool(Secret(VALUE))) == (False, True)
