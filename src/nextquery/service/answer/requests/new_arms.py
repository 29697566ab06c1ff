"""Which queries may become arms, and who is counted for it."""

from nextquery.catalogue.catalogue import Place
from nextquery.segments import text_of
from nextquery.service.log.events import vector_text
from nextquery.service.log.new_arms import NewArmRules, Sighting
from nextquery.service.log.store import Hashes
from nextquery.service.settings import EngineOptions


class NewArms:
    """Applies the options of new arms to the queries of requests."""

    def __init__(self, options: EngineOptions, hashes: Hashes) -> None:
        self.options, self._hashes = options, hashes
        self.rules = NewArmRules(
            options.min_users, options.new_arms_per_hour, options.review_new_arms
        )

    def with_hits(self, place: Place, hits: int | None) -> Place:
        """Return the place of a query, which becomes no arm if it had too few results."""
        if hits is None or hits >= self.options.min_hits:
            return place
        return place._replace(may_become_arm=False)

    def sighting(self, place: Place, user_hash: str | None, model: int) -> Sighting | None:
        """Return who typed the query, if it may become an arm."""
        if not self.options.new_arms or user_hash is None or not place.may_become_arm:
            return None
        key = self._hashes.text(place.text)
        # Shown as cleaned: a spelling of one person alone could carry what the others never typed.
        shown = text_of(place.text)
        return Sighting(key, user_hash, place.text, shown, vector_text(place.vector), model)
