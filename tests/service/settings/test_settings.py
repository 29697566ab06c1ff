"""One schema for options, environment and file; every mistake gets a clear message."""

from dataclasses import fields
from pathlib import Path

import pytest

from nextquery.errors import InvalidInput, NotAFolder
from nextquery.service.load_settings import load, settings_table
from nextquery.service.settings import EngineOptions, Settings


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NEXTQUERY_CONTROL_SHARE", raising=False)


def test_options_beat_environment_beats_file_beats_default(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("nextquery.toml").write_text("port = 1\nworkers = 2\nk = 3\n")
    monkeypatch.setenv("NEXTQUERY_PORT", "10")
    monkeypatch.setenv("NEXTQUERY_WORKERS", "20")
    settings, origins = load({"port": "100", "host": None})
    assert (settings.port, settings.workers, settings.k, settings.host) == (100, 20, 3, "127.0.0.1")
    assert [origins[name] for name in ("port", "workers", "k", "host")] == [
        "option --port",
        "environment NEXTQUERY_WORKERS",
        "nextquery.toml",
        "default",
    ]


def test_the_file_can_be_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.toml").write_text('cors_origins = ["https://shop.example"]\n')
    assert load(config=tmp_path / "mine.toml").settings.cors_origins == ["https://shop.example"]
    monkeypatch.setenv("NEXTQUERY_CONFIG", "mine.toml")
    assert load().settings.cors_origins == ["https://shop.example"]
    monkeypatch.setenv("NEXTQUERY_CONFIG", "nowhere.toml")
    with pytest.raises(NotAFolder, match=r"nowhere\.toml"):
        load()


def test_lists_in_the_environment_are_separated_by_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEXTQUERY_ALLOWED_HOSTS", "a.example, b.example")
    assert load().settings.allowed_hosts == ["a.example", "b.example"]


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("port", "x", "valid integer"),
        ("port", "70000", "65535"),
        ("workers", "0", "greater than or equal to 1"),
        ("keys", "maybe", "'auto', 'on' or 'off'"),
        ("policy", "magic", "lin-ucb-memory"),
        ("exploration", "2", "less than or equal to 1"),
        ("exploration", "nan", "finite"),
        ("rate_limit", "often", "1000/second"),
        ("cors_origins", "shop.example", "https://shop.example"),
        ("cors_origins", "*", "https://shop.example"),
        ("min_users", "1", "greater than or equal to 2"),
        ("prot", "1", "port"),
    ],
)
def test_a_mistake_names_field_value_and_what_is_allowed(
    name: str, value: str, allowed: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        load({name: value})
    message = str(caught.value)
    assert name in message
    assert allowed in message
    assert name == "prot" or value in message


def test_mistakes_of_file_and_environment_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("nextquery.toml").write_text("workers = 'many'\n")
    with pytest.raises(InvalidInput, match=r"workers \(nextquery\.toml\): received 'many'"):
        load()
    Path("nextquery.toml").write_text("workers = ")
    with pytest.raises(InvalidInput, match="not a TOML file"):
        load()
    Path("nextquery.toml").write_text("prot = 1\n")
    with pytest.raises(InvalidInput, match=r"prot \(nextquery\.toml\) is not a setting"):
        load()
    Path("nextquery.toml").unlink()
    monkeypatch.setenv("NEXTQUERY_PORT", "many")
    with pytest.raises(InvalidInput, match=r"port \(environment NEXTQUERY_PORT\): .*'many'"):
        load()


def test_a_mistake_in_an_assignment_names_it() -> None:
    with pytest.raises(InvalidInput, match=r"k \(option --set k\)"):
        load({"k": "many"}, assigned={"k"})


def test_secrets_are_not_repeated() -> None:
    long = "abc" * 20
    for name in ("user_hash_secret", "user_signing_secret"):
        settings = load({name: long}).settings
        assert "abc" not in f"{settings!r} {settings} {settings.model_dump()}"
        with pytest.raises(InvalidInput) as caught:
            load({name: ["abc"]})
        assert "abc" not in str(caught.value)


def test_a_short_signing_secret_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidInput, match=r"at least 32 characters.* openssl rand") as caught:
        load({"user_signing_secret": "hush"})
    assert "hush" not in str(caught.value)
    assert load().settings.user_signing_secret.get_secret_value() == ""
    monkeypatch.setenv("NEXTQUERY_USER_SIGNING_SECRET", "x" * 32)
    settings, origins = load()
    assert settings.user_signing_secret.get_secret_value() == "x" * 32
    assert origins["user_signing_secret"] == "environment NEXTQUERY_USER_SIGNING_SECRET"
    Path("nextquery.toml").write_text("personal = false\n")
    assert load().settings.engine_options().personal is False


def test_every_option_of_the_engine_is_a_setting_with_the_same_default() -> None:
    default = EngineOptions(control_share=0.05)  # a service is watched, an engine need not be
    assert Settings().engine_options() == default
    for field in fields(EngineOptions):
        assert field.name in Settings.model_fields
    assert load({"user_hash_secret": "abc"}).settings.engine_options().user_hash_secret == "abc"


def test_max_waiting_is_at_least_max_inflight() -> None:
    with pytest.raises(InvalidInput, match="max_inflight"):
        load({"max_waiting": "3", "max_inflight": "4"})


def test_shards_are_those_of_a_cluster() -> None:
    with pytest.raises(InvalidInput, match="needs a cluster"):
        load({"shards": "3"})
    assert load({"shards": "3", "cluster": "local"}).settings.shards == 3


def test_every_setting_is_documented() -> None:
    text = (Path(__file__).parents[3] / "docs" / "reference" / "settings.md").read_text()
    assert settings_table() in text, "paste the output: python -m nextquery.service.load_settings"
