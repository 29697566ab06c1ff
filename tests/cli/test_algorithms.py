"""`nextquery algorithms`: every policy, for people and for programs."""

import json

from nextquery.policies.registry import POLICIES
from tests.command_line import run_here


def test_every_policy_is_listed_with_what_it_assumes_and_its_parameters() -> None:
    rows = json.loads(run_here("algorithms", "--json").stdout)
    assert [row["name"] for row in rows] == list(POLICIES)
    for row in rows:
        assert row["assumptions"]
        assert row["reference"]
        assert "seed" in row["parameters"]
        assert row["learns_from_users"] == (row["order_matters"] == "")


def test_people_see_which_ones_need_the_order_of_rewards() -> None:
    text = run_here("algorithms").stdout
    assert "two-target *" in text
    assert "ucb-air *" not in text
    assert "horizon=1000" in text
    assert "* the order of rewards matters" in text
