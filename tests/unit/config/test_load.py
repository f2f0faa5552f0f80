"""Settings: every problem at once, each with its place."""

from pathlib import Path

import pytest

from shared.config import ConfigProblems, load
from shared.config.declare import settings_of
from shared.config.sections import SECTIONS


def problems(environ: dict[str, str]) -> list[str]:
    with pytest.raises(ConfigProblems) as caught:
        load(environ)
    return caught.value.problems


def test_without_anything_set_the_defaults_hold() -> None:
    settings = load({})
    assert (settings.poll.shards, settings.limits.sender_per_minute, settings.delivery.call_seconds) == (
        1,
        20,
        30.0,
    )


def test_the_environment_sets_by_section_and_name() -> None:
    settings = load(
        {"TRUNKLINE_MODEL_URL": "http://m/v1", "TRUNKLINE_MODEL_API_KEY": "k", "TRUNKLINE_POLL_SHARDS": "3"}
    )
    assert (settings.model.url, settings.model.api_key, settings.poll.shards) == ("http://m/v1", "k", 3)


def test_all_problems_are_reported_at_once() -> None:
    found = problems(
        {"TRUNKLINE_MODELL_URL": "x", "TRUNKLINE_POLL_SHARDS": "many", "TRUNKLINE_HTTP_PORT": "99999"}
    )
    assert len(found) == 3
    assert any("did you mean TRUNKLINE_MODEL_URL" in p for p in found)
    assert any(p.startswith("TRUNKLINE_POLL_SHARDS must be a whole number") for p in found)
    assert any("at most 65535" in p for p in found)


@pytest.mark.parametrize("value", ["nan", "inf", "", "1e400", "one"])
def test_what_is_no_number_is_refused(value: str) -> None:
    assert problems({"TRUNKLINE_POLL_WAIT_SECONDS": value})


def test_relations_between_settings_are_checked() -> None:
    found = problems({"TRUNKLINE_LEADER_TRUST_SECONDS": "9"})
    assert found == ["[leader] renewal (1.0), trust (9.0) and lease (6.0) seconds must grow in this order"]


def test_a_file_gives_settings_and_the_environment_wins(tmp_path: Path) -> None:
    path = tmp_path / "trunkline.toml"
    path.write_text("[poll]\nshards = 2\nwait_seconds = 5\n[http]\nsecure_cookies = true\n", "utf-8")
    settings = load({"TRUNKLINE_CONFIG": str(path), "TRUNKLINE_POLL_SHARDS": "4"})
    assert (settings.poll.shards, settings.poll.wait_seconds, settings.http.secure_cookies) == (4, 5.0, True)


def test_unknown_sections_and_names_of_a_file_are_named_with_their_place(tmp_path: Path) -> None:
    path = tmp_path / "trunkline.toml"
    path.write_text("[polll]\nx = 1\n[poll]\nshard = 2\n", "utf-8")
    found = problems({"TRUNKLINE_CONFIG": str(path)})
    assert any("[polll] is not a section; did you mean poll?" in p for p in found)
    assert any("[poll] shard is not a setting; did you mean shards?" in p for p in found)


def test_the_common_prefix_makes_no_name_similar() -> None:
    found = problems({"TRUNKLINE_FOO": "1", "TRUNKLINE_MODEL_ULR": "1"})
    assert found == [
        "TRUNKLINE_FOO is not a setting; all of them stand in docs/configuration.md",
        "TRUNKLINE_MODEL_ULR is not a setting; did you mean TRUNKLINE_MODEL_URL?",
    ]


def test_a_secret_may_come_from_a_file_and_never_prints(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text("very-secret\n", "utf-8")
    settings = load({"TRUNKLINE_MODEL_API_KEY_FILE": str(path)})
    assert settings.model.api_key == "very-secret"
    assert "very-secret" not in repr(settings)


def test_only_secrets_have_a_file_form(tmp_path: Path) -> None:
    assert problems({"TRUNKLINE_MODEL_URL_FILE": str(tmp_path / "x")})


def test_every_setting_says_what_it_means() -> None:
    for name, section in SECTIONS.items():
        for setting, _, meaning in settings_of(type(section)):
            assert meaning.help, f"[{name}] {setting}"
