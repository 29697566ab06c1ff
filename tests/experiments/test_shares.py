"""The split of sessions: shares as written, the same session always the same policy."""

from collections import Counter

import pytest

from nextquery.errors import InvalidInput
from nextquery.experiments.assignment import parse_shares, policy_of, with_control


def test_the_shares_of_sessions_are_those_asked_for() -> None:
    shares = {"a": 0.6, "b": 0.3, "c": 0.1}
    found = Counter(policy_of(f"s-{number}", shares, secret="key") for number in range(20_000))
    for name, share in shares.items():
        assert found[name] / 20_000 == pytest.approx(share, abs=0.011)  # three standard errors


def test_a_session_keeps_its_policy_and_another_secret_or_salt_divides_anew() -> None:
    shares = {"a": 0.5, "b": 0.5}
    names = [f"s-{number}" for number in range(400)]

    def split(secret: str, salt: str = "") -> list[str]:
        return [policy_of(name, shares, secret=secret, salt=salt) for name in names]

    assert split("key") == split("key")
    for other in (split("other"), split("key", "next experiment")):
        same = sum(one == two for one, two in zip(split("key"), other, strict=True))
        assert 150 < same < 250


def test_sessions_of_the_control_stay_the_control_when_others_are_divided() -> None:
    names = [f"s-{number}" for number in range(2000)]
    one = with_control({"a": 1.0}, "control", 0.05)
    assert sum(with_control({"a": 0.5, "b": 0.5}, "control", 0.05).values()) == pytest.approx(1)
    assert {policy_of(name, {"a": 1.0}, secret="k") for name in names} == {"a"}
    assert 60 < sum(policy_of(name, one, secret="k") == "control" for name in names) < 140


@pytest.mark.parametrize(
    "text", ["", "a", "a:1.0", "a:0.5", "a:0.5,b:0.6", "a:0.5,a:0.5", "a:x,b:0.5", ":0.5,b:0.5"]
)
def test_unreadable_shares_are_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"shares|sum to"):
        parse_shares(text)
