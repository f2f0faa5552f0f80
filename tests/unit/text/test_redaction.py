import pytest

from shared.text.redaction import REDACTED, scrub, scrub_tokens

TOKEN = "123456789:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsawx"


@pytest.mark.parametrize(
    "text",
    [
        f"url https://api.telegram.org/bot{TOKEN}/getUpdates failed",
        f"token={TOKEN}",
        "https://api.telegram.org/bot123456789%3AAAHdqTcvCH1vGWJxfSeofSAs0K5PALDsawx/getMe",
        f"('/bot{TOKEN}/getMe',)",
    ],
)
def test_token_shapes_are_taken_out_of_any_text(text: str) -> None:
    assert "AAHdq" not in scrub_tokens(text)
    assert REDACTED in scrub_tokens(text)


@pytest.mark.case("TG-19")
def test_a_known_secret_is_taken_out_whatever_its_shape() -> None:
    token = "111111:TESTSECRET"
    for text in (f"a {token} b", "just TESTSECRET", "bot111111%3ATESTSECRET", "/bot111111:TESTSECRET/x"):
        assert "TESTSECRET" not in scrub(text, (token,))


def test_ordinary_text_stays() -> None:
    text = "At 12:30 robot 7 said 1:2, see /bottom and https://ex.test/bots"
    assert scrub(text, ("", "unused-secret")) == text
