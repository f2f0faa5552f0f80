import dataclasses
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from shared.config.declare import Meaning, settings_of
from shared.config.sections import SECTIONS, Settings, relations

PREFIX = "TRUNKLINE_"
#: names under our prefix that are not settings: the settings file itself, what tests read, the key for a command
_OTHER_NAMES = frozenset({"TRUNKLINE_CONFIG", "TRUNKLINE_SPEC", "TRUNKLINE_API_KEY"})


class ConfigProblems(ValueError):
    """Everything that is wrong with the settings, one sentence each."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


def load(environ: Mapping[str, str] | None = None) -> Settings:
    """Read the file named by TRUNKLINE_CONFIG (TOML) and the environment, which wins.

    Raises ConfigProblems with every unknown name and unusable value, and says where each stands.
    """
    environ = os.environ if environ is None else environ
    problems: list[str] = []
    values: dict[str, dict[str, Any]] = {name: {} for name in SECTIONS}
    _read_file(environ.get("TRUNKLINE_CONFIG", ""), values, problems)
    _read_environment(environ, values, problems)
    sections = {name: dataclasses.replace(SECTIONS[name], **values[name]) for name in SECTIONS}
    settings = Settings(**sections)
    problems += relations(settings)
    if problems:
        raise ConfigProblems(problems)
    return settings


def _known() -> dict[str, tuple[str, str, Any, Meaning]]:
    """Environment name -> section, setting, default, meaning."""
    return {
        f"{PREFIX}{section}_{name}".upper(): (section, name, default, meaning)
        for section, defaults in SECTIONS.items()
        for name, default, meaning in settings_of(type(defaults))
    }


def _read_environment(
    environ: Mapping[str, str], values: dict[str, dict[str, Any]], problems: list[str]
) -> None:
    known = _known()
    for name in sorted(environ):
        if not name.startswith(PREFIX) or name in _OTHER_NAMES:
            continue
        declared = known.get(name) or known.get(name.removesuffix("_FILE"))
        if declared is None or (name not in known and not declared[3].secret):
            problems.append(f"{name} is not a setting{_similar(name, list(known), PREFIX)}")
            continue
        text = environ[name] if name in known else _secret_file(name, environ[name], problems)
        if text is not None:
            _put(values, declared, text, name, problems)


def _read_file(path: str, values: dict[str, dict[str, Any]], problems: list[str]) -> None:
    if not path:
        return
    try:
        document = tomllib.loads(Path(path).read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as problem:
        problems.append(f"the settings file {path} cannot be read: {_why(problem)}")
        return
    known = {(section, name): rest for section, name, *rest in _known().values()}
    for section, content in document.items():
        if section not in SECTIONS or not isinstance(content, dict):
            problems.append(f"{path}: [{section}] is not a section{_similar(section, list(SECTIONS))}")
            continue
        for name, value in content.items():
            if (section, name) not in known:
                names = [n for s, n in known if s == section]
                problems.append(f"{path}: [{section}] {name} is not a setting{_similar(name, names)}")
                continue
            default, meaning = known[section, name]
            _put(values, (section, name, default, meaning), value, f"{path}: [{section}] {name}", problems)


def _put(
    values: dict[str, dict[str, Any]],
    declared: tuple[str, str, Any, Meaning],
    raw: Any,
    where: str,
    problems: list[str],
) -> None:
    section, name, default, meaning = declared
    try:
        value = _convert(raw, type(default))
        _check(value, meaning)
    except ValueError as problem:
        problems.append(f"{where} {problem}")
        return
    values[section][name] = value


def _convert(raw: Any, kind: type) -> Any:
    if kind is bool:
        word = str(raw).strip().lower()
        if word not in {"1", "0", "true", "false", "yes", "no", "on", "off"}:
            raise ValueError("must be true or false")
        return word in {"1", "true", "yes", "on"}
    if kind is str:
        if not isinstance(raw, str):
            raise ValueError("must be text")
        return raw
    try:
        number = float("nan") if isinstance(raw, bool) else float(raw)
        exact = int(number) == number
    except (TypeError, ValueError, OverflowError):
        exact, number = False, float("nan")
    if number != number or (kind is int and not exact):  # noqa: PLR0124 - the test for "not a number"
        raise ValueError(f"must be a {'whole ' if kind is int else ''}number")
    return kind(number)


def _check(value: Any, meaning: Meaning) -> None:
    if meaning.choices and value not in meaning.choices:
        raise ValueError(f"must be one of {', '.join(meaning.choices)}")
    if meaning.least is not None and not value >= meaning.least:
        raise ValueError(f"must be at least {meaning.least:g} {meaning.unit}".rstrip())
    if meaning.most is not None and not value <= meaning.most:
        raise ValueError(f"must be at most {meaning.most:g} {meaning.unit}".rstrip())


def _secret_file(name: str, path: str, problems: list[str]) -> str | None:
    try:
        return Path(path).read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as problem:
        problems.append(f"{name}: the file {path} cannot be read: {_why(problem)}")
        return None


def _why(problem: Exception) -> str:
    """Without the path, which stands before it."""
    return (problem.strerror if isinstance(problem, OSError) else None) or str(problem)


def _similar(name: str, names: list[str], prefix: str = "") -> str:
    """What may have been meant; a prefix that all names have in common makes none of them similar."""
    import difflib

    own = [known.removeprefix(prefix) for known in names]
    close = difflib.get_close_matches(name.removeprefix(prefix), own, n=1)
    return f"; did you mean {prefix}{close[0]}?" if close else "; all of them stand in docs/configuration.md"
