"""Private text that several people type still does not become an arm of the running service."""

from nextquery.service.log.store import Store
from tests.service.conftest import Start
from tests.service.worlds import kinds

PRIVATE = (
    "cats at 85.214.132.117",
    "cats 192.168.0.1",
    "cats passport number C01X00T47",
    "cats medical record number 00412345",
    "cats date of birth 12/03/1985",
    "cats of my daughter 12 march 2015",
    "cats password is hunter2",
    "cats the password is swordfish",
    "cats wifi key 12345678abcd",
)


def test_private_text_of_three_people_is_no_arm(sqlite: Store, start: Start) -> None:
    engine = start(sqlite)

    def typed_by_three(query: str) -> None:
        for user in ("ann", "bob", "cyd"):
            engine.recommend(session_id=f"{user} {query}", query=query, user_id=user)

    for query in PRIVATE:
        typed_by_three(query)
    assert "arm_added" not in kinds(sqlite)
    typed_by_three("cats guide for price")
    assert "arm_added" in kinds(sqlite)
