"""Algorithm 1: the loop, warm start, and exact resumption after a save."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nextquery as nq
from nextquery.errors import InvalidInput
from nextquery.policies.registry import POLICIES as REGISTRY
from nextquery.policies.registry import PolicyEntry, name_of, policy_named
from tests.policies.worlds import TopicWorld

TEXTS = [
    f"{animal} {thing}"
    for animal in ("cat", "dog", "cow", "hen", "fox")
    for thing in ("food", "house", "sleep", "sound", "photo", "name", "age", "size")
]


@pytest.fixture
def encoder() -> nq.encode.Encoder:
    return nq.encode.LsaEncoder(dim=8).fit(TEXTS)


def recommender(encoder: Any, **options: Any) -> nq.Recommender:
    pool = nq.ArmPool.from_vectors(TEXTS, encoder.encode(TEXTS))
    policy = options.pop("policy", nq.LinUCB())
    return nq.Recommender(pool, nq.MaxUtility(k=10), policy, encoder, **options)


def play(rec: nq.Recommender, rounds: int, seed: int = 5) -> list[tuple[int, float, float]]:
    """Play rounds with users who accept arms that end like their query; return all choices."""
    rng = np.random.default_rng(seed)
    choices: list[tuple[int, float, float]] = []
    while len(choices) < rounds:
        session = rec.start(TEXTS[rng.integers(len(TEXTS))])
        for _ in range(4):
            choice = session.recommend()
            assert choice is not None
            choices.append((choice.arm, choice.score, choice.propensity))
            if choice.text.split()[1] == session.query.split()[1]:
                session.accept(choice)
            else:
                session.ignore(choice, TEXTS[rng.integers(len(TEXTS))])
    return choices[:rounds]


ANY_NAME: Any = None
ANY: Any = nq.Recommender  # hides wrong types from the type checker
POLICIES = [
    nq.LinUCB(),
    nq.LinUCB(model="disjoint", prior=None),
    nq.LinTS(draws=10),
    nq.MostSimilar(),
    nq.RandomPolicy(),
]


@pytest.mark.parametrize("policy", POLICIES, ids=lambda p: type(p).__name__)
def test_saved_and_opened_goes_on_exactly(encoder: Any, policy: Any, tmp_path: Path) -> None:
    rec = recommender(encoder, policy=policy, exploration=0.05, schedule=nq.Bump(peak=20, start=4))
    play(rec, 40)
    rec.save(tmp_path)
    again = nq.Recommender.open(tmp_path)
    assert play(again, 200) == play(rec, 200)
    rec.save(tmp_path)
    assert play(nq.Recommender.open(tmp_path), 50) == play(rec, 50)


class Own(nq.MostSimilar):
    """The most similar, as a policy of the user's own."""


class OwnSelector(nq.MaxUtility):
    """The largest utility, as a selector of the user's own."""


@pytest.mark.parametrize("name", REGISTRY)
def test_a_saved_policy_has_the_name_of_its_class_and_defaults(name: str) -> None:
    assert name_of(policy_named(name)) == name


def test_a_many_armed_policy_opens_in_a_fresh_process(tmp_path: Path) -> None:
    world = TopicWorld()
    rec = nq.Recommender(world.pool, nq.MaxUtility(k=4), nq.policy("moss@horizon=50"), seed=4)
    for _ in range(5):
        session = rec.start("topic 1")
        session.accept(session.recommend(2)[0])
    rec.save(tmp_path)
    code = (
        f"import nextquery as nq; rec = nq.Recommender.open({str(tmp_path)!r});"
        "print(rec.policy, [choice.arm for choice in rec.start('topic 1').recommend(3)], sep=';')"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    arms = [choice.arm for choice in rec.start("topic 1").recommend(3)]
    assert found.stdout.strip() == f"MOSS(horizon=50, seed=0);{arms}", found.stderr


def test_classes_of_ones_own_are_found_if_they_are_imported(tmp_path: Path) -> None:
    world = TopicWorld()
    rec = nq.Recommender(world.pool, OwnSelector(k=4), Own(), schedule=nq.Power(1.0))
    rec.save(tmp_path)
    again = nq.Recommender.open(tmp_path)
    assert type(again.policy) is Own
    assert type(again.selector) is OwnSelector
    code = f"import nextquery as nq; nq.Recommender.open({str(tmp_path)!r})"
    failed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "import the module that defines it first" in failed.stderr
    assert f"{__name__}:OwnSelector" in failed.stderr


def test_names_that_are_not_registered_are_answered_with_the_known_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = TopicWorld()
    monkeypatch.setitem(REGISTRY, "own", PolicyEntry(Own, "The most similar."))
    nq.Recommender(world.pool, nq.MaxUtility(k=4), Own()).save(tmp_path)
    assert json.loads((tmp_path / "manifest.json").read_text())["meta"]["policy"] == "own"
    assert type(nq.Recommender.open(tmp_path).policy) is Own
    monkeypatch.delitem(REGISTRY, "own")
    with pytest.raises(InvalidInput, match=r"no Policy registered as 'own' among lin-ucb-memory, "):
        nq.Recommender.open(tmp_path)


def test_a_schedule_that_could_not_be_opened_is_not_saved(tmp_path: Path) -> None:
    class Always:
        start = 2

        def __call__(self, trial: int) -> float:
            return 2.0

        def get_params(self) -> dict[str, Any]:
            return {}

    rec = nq.Recommender(TopicWorld().pool, nq.MaxUtility(k=4), nq.LinUCB(), schedule=Always())
    with pytest.raises(InvalidInput, match="Derive the class from Schedule"):
        rec.save(tmp_path / "rec")
    assert not (tmp_path / "rec").exists()


def test_every_option_is_saved(encoder: Any, tmp_path: Path) -> None:
    rec = recommender(encoder, repeat=True, returns=True, add_arms=True, reselect=False, seed=9)
    rec.start("blue whale cat").recommend()
    rec.save(tmp_path)
    again = nq.Recommender.open(tmp_path)
    assert (again.repeat, again.add_arms, again.reselect, again.seed) == (True, True, False, 9)
    assert again.returns
    assert again.pool.index_of("blue whale cat") == 40
    assert again.sessions_started == 1
    assert again.catalogue.shown(40) == rec.catalogue.shown(40)


def test_an_encoder_of_ones_own_is_asked_for_again(encoder: Any, tmp_path: Path) -> None:
    class Own:
        def encode(self, texts: Any) -> Any:
            return encoder.encode(texts)

    rec = nq.Recommender(
        nq.ArmPool.from_vectors(TEXTS, encoder.encode(TEXTS)), nq.Zooming(), nq.LinUCB(), Own()
    )
    rec.save(tmp_path)
    with pytest.raises(InvalidInput, match=r"Recommender\.open\(path, encoder="):
        nq.Recommender.open(tmp_path)
    assert nq.Recommender.open(tmp_path, encoder=Own()).start("cat toys").recommend() is not None


def test_a_query_never_seen_is_encoded_and_becomes_an_arm_if_wanted(encoder: Any) -> None:
    rec = recommender(encoder)
    choice = rec.start("cat and dog").recommend()
    assert choice is not None
    assert choice.text.split()[0] in ("cat", "dog")
    assert rec.pool.index_of("cat and dog") is None
    rec = recommender(encoder, add_arms=True)
    session = rec.start("cat and dog")
    assert rec.pool.index_of("cat and dog") == 40
    assert all(choice.arm != 40 for choice in session.recommend(10))
    assert rec.start("zzz qqq").recommend(3) == []  # no known word, so no vector
    assert rec.pool.index_of("zzz qqq") is None


def test_warm_start_learns_what_follows_what() -> None:
    world = TopicWorld()
    rec = nq.Recommender(world.pool, nq.MaxUtility(k=8), nq.LinUCB(alpha=0.1, ridge=0.01))
    rng = np.random.default_rng(0)
    starts = rng.integers(8, size=300).tolist()
    learnt = rec.warm_start([[s, world.wanted(s)] for s in starts])
    assert learnt == 240  # a fifth of the sessions calibrates the forecasts
    for topic in range(8):
        choice = rec.start(f"topic {topic}").recommend()
        assert choice is not None
        assert choice.arm == world.wanted(topic)


def test_warm_start_takes_texts_and_passes_over_what_is_not_known() -> None:
    world = TopicWorld()
    rec = nq.Recommender(world.pool, nq.MaxUtility(k=8), nq.LinUCB())
    assert rec.warm_start([["topic 0", "topic 1"], ["topic 2", "unheard of", "topic 4"], []]) == 1


def test_warm_start_positives_must_be_candidates() -> None:
    pool = nq.ArmPool.from_vectors(["a", "b", "c"], [[1, 0], [3, 1], [0, 1]])
    rec = nq.Recommender(pool, nq.MaxUtility(k=1), nq.LinUCB())
    assert rec.warm_start([["a", "b"], ["a", "c"]]) == 1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda rec: rec.start(""), "non-empty string; received ''"),
        (lambda rec: rec.start(None), "received None"),
        (lambda rec: rec.start("q0").recommend(0), "m must be a whole number"),
        (lambda rec: rec.start("q0", 5), "session_id must be a non-empty string; received 5"),
        (lambda rec: rec.warm_start(["q0"]), "a session must be a list of texts or arm ids"),
        (lambda rec: rec.warm_start([[0.5]]), "arm id must be a whole number"),
        (lambda rec: rec.warm_start([], newest=-1), "newest must be"),
        (lambda rec: rec.warm_start(), "has no sessions to learn from"),
        (
            lambda rec: ANY(rec.pool, nq.Zooming(), nq.LinUCB(), memory=nq.Memory()),
            "does not use a memory",
        ),
        (
            lambda rec: ANY(rec.pool, nq.Zooming(), nq.policy("lin-ucb-memory")),
            r"memory=nq\.Memory",
        ),
        (
            lambda rec: ANY(rec.pool, nq.Zooming(), nq.policy("lin-ucb-memory"), memory=rec.pool),
            "memory must be a Memory object",
        ),
        (
            lambda rec: ANY(
                rec.pool, nq.Zooming(), nq.policy("lin-ucb-memory"), memory=nq.Memory([[0, 5000]])
            ),
            "contain arm 5000",
        ),
        (lambda rec: ANY(rec.pool, nq.Zooming(), nq.LinUCB(), learning={}), "Learning object"),
        (lambda rec: nq.policy(ANY_NAME), "received None"),
        (lambda rec: rec.start("unheard of"), "has no encoder"),
        (
            lambda rec: nq.Recommender(rec.pool, nq.Zooming(), nq.LinUCB(), schedule=nq.Bump(2)),
            "Zooming has no k to set",
        ),
        (lambda rec: ANY(rec.pool, nq.LinUCB(), nq.Zooming()), "must be a Selector"),
        (lambda rec: ANY(rec.pool, nq.Zooming(), nq.LinUCB), "must be a Policy"),
        (lambda rec: ANY(rec.pool, nq.Zooming(), nq.LinUCB(), "static"), "a method encode"),
        (
            lambda rec: nq.Recommender(rec.pool, nq.Zooming(), nq.LinUCB(), exploration=-1),
            "exploration must be a number",
        ),
    ],
)
def test_bad_input_is_named(pool: nq.ArmPool, call: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        call(nq.Recommender(pool, nq.MaxUtility(k=5), nq.LinUCB()))
