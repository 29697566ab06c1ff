"""The registry of rivals."""

import pytest

import nextquery as nq
from nextquery.errors import InvalidInput
from nextquery.memory import SessionMemory
from nextquery.policies.registry import POLICIES, SELECTIONS, joined
from nextquery.research.neural import METHODS
from nextquery.research.neural.serve import NeuralRival
from nextquery.research.rivals.registry import RIVALS, TRAINED, rival_class, rival_named
from nextquery.sessions import Sessions

SESSIONS = [[0, 1, 2], [0, 2]]


def test_a_name_is_a_policy_or_a_rival_but_not_both() -> None:
    assert not set(RIVALS) & set(POLICIES)
    assert not (set(RIVALS) & set(SELECTIONS))


def test_every_trained_method_has_its_rival() -> None:
    assert list(TRAINED) == list(METHODS)
    assert all(issubclass(rival_class(name), NeuralRival) for name in TRAINED)


def test_a_variant_sets_parameters_and_the_rest_are_defaults() -> None:
    for name in RIVALS:
        params = rival_named(name, SESSIONS).get_params()
        again = rival_named(joined(name, params), SESSIONS)
        assert again.get_params() == params
        assert type(again) is type(rival_named(name, SESSIONS))
    assert nq.rival("stan@session_days=none", SESSIONS).get_params()["session_days"] is None
    assert nq.rival("vs-knn@neighbours=100", SESSIONS).get_params() == {
        "neighbours": 100,
        "sample": 1000,
    }


def test_a_memory_or_sessions() -> None:
    memory = SessionMemory(Sessions.of(SESSIONS))
    assert nq.rival("sr", memory).memory is memory
    step = nq.Step(before=5, history=[0])
    for sessions in (SESSIONS, Sessions.of(SESSIONS), memory):
        assert nq.rival("sr", sessions).rank(step, 5).tolist() == [2, 1]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("markov", "rival must be one of popularity, .*cfan; received 'markov'"),
        ("lin-ucb", "rival must be one of"),
        ("sr@depth=3", "no parameter 'depth'; a variant may set places, steps, like 'stan@"),
        ("popularity@top=3", "popularity has no variants. Use 'popularity'"),
        ("sr@steps=0", "steps must be a whole number of at least 1; received 0"),
        ("n-gram@longest=none", "longest must be a whole number"),
        ("vs-knn@neighbours=0.5", "neighbours must be a whole number"),
        ("vs-knn@sample=0", "sample must be a whole number"),
        ("stan@session_days=0", "session_days must be a number above 0"),
        ("stan@position_decay=-1", "position_decay must be a number above 0"),
        ("stan@distance_decay=x", "distance_decay must be a number above 0"),
        ("vstan@match_decay=0", "match_decay must be a number above 0"),
        ("vstan@rarity=-1", "rarity must be a number"),
        ("s-knn@similarity=dice", "similarity must be one of cosine, jaccard; received 'dice'"),
        ("vmm@growth=-1", "growth must be a number"),
        ("vmm@longest=0", "longest must be a whole number"),
        ("ar@places=0", "places must be a whole number"),
        ("stan@neighbours=0", "neighbours must be a whole number"),
    ],
)
def test_wrong_names_say_what_is_allowed(name: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        rival_named(name, SESSIONS)
