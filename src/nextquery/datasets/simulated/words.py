"""The words of simulated queries, and how a person rewords a query.

Every topic has one word that all its queries contain, and a few words of its own. So texts of a
topic are similar to each other, as an encoder sees them.
"""

from collections.abc import Container, Sequence

import numpy as np

_TOPICS = """
weather tomorrow weekend radar hourly rain snow storm warnings
recipe chicken pasta vegetarian soup dessert oven salad curry
football scores fixtures league transfer highlights stadium tickets goals
flights airline airport luggage departures layover refund upgrade boarding
mortgage rates calculator refinance lender deposit fixed approval insurance
laptop battery screen charger keyboard gaming memory repair reviews
guitar chords strings lessons acoustic amplifier tabs tuner pedals
garden tomatoes soil compost roses fence weeds greenhouse pruning
dog puppy training leash vaccine breeds kennel grooming biscuits
headache migraine pills causes pregnancy dizziness relief sleep neck
movie trailer cast streaming sequel soundtrack showtimes director awards
hotel spa breakfast booking beach suite parking rooftop discount
car tyres brakes engine dealer lease hybrid towing wiper
wedding dress venue invitations flowers cake rings photographer speech
running shoes marathon knee treadmill intervals socks injury pace
camera lens tripod mirrorless portrait shutter filters drone flash
knitting patterns yarn needles sweater scarf crochet blanket mittens
chess openings endgame puzzles tournament grandmaster clock board notation
tax deadline deduction form bracket receipts audit allowance return
coffee espresso beans grinder filter latte decaf machine roast
bicycle helmet gears saddle mountain pump chain electric panniers
python tutorial list dictionary pandas error decorator install async
history roman medieval empire revolution timeline museum castle treaty
yoga poses mat beginner breathing stretching retreat hips morning
kitchen sink cabinets tiles worktop island lighting faucet remodel
astronomy telescope planets eclipse comet galaxy moon meteor constellations
fishing rod bait trout license river lures boat knots
piano sheet keys teacher pedal jazz scales digital sonata
phone contract unlock case camera backup android cracked signal
camping tent stove sleeping campsite lantern hammock backpack firewood
baby stroller names formula crib nappies teething carrier monitor
university tuition admission dormitory scholarship campus degree ranking exams
jobs nursing warehouse salary interview remote apprentice resume vacancies
cat litter kitten scratching allergies whiskers indoor vet food
bread sourdough flour yeast kneading rye crust starter baguette
tennis racket serve court grass doubles umpire backhand seeds
skiing slopes boots resort helmet lift goggles lessons avalanche
election polls candidates ballot turnout debate results district recount
solar panels inverter roof grant battery savings installation kilowatt
train timetable delays railcard platform sleeper strike carriage seat
painting watercolor canvas brushes acrylic oil easel frames landscape
novel author thriller chapter paperback review sequel bestseller library
sofa leather corner fabric delivery recliner cushions cleaning bed
aquarium tropical filter pump algae shrimp tank heater plants
insurance claim premium travel pet broker excess quote policy
vaccination travel clinic booster malaria schedule flu measles record
bank transfer branch overdraft savings interest fees account closure
birthday balloons gift cake party invitation games card candles
"""
TOPICS = tuple((line.split()[0], tuple(line.split()[1:])) for line in _TOPICS.strip().splitlines())

_MODIFIERS = """
best cheap free online near local used new easy quick small large modern simple vintage
guide ideas tips price cost compare shop store buy rent sale offers forum video pictures pdf
beginners experts children adults seniors students teachers families summer winter spring autumn
today tonight monthly yearly safe healthy popular famous rare custom handmade wooden plastic
metal blue red green black white bright quiet heavy light portable wireless automatic manual
london paris berlin madrid chicago boston dublin toronto sydney oslo vienna lisbon problems
alternatives difference explained checklist template examples mistakes advice questions answers
"""
MODIFIERS = tuple(_MODIFIERS.split())
_LONGEST = 3  # words that rewording usually adds to a common query
_OWN_WORDS = 0.6  # share of words that are the topic's own


def word(topic: int, rng: np.random.Generator) -> str:
    """Draw a word that people add to queries of a topic."""
    words = TOPICS[topic][1] if rng.random() < _OWN_WORDS else MODIFIERS
    return words[int(rng.integers(len(words)))]


def common_texts(topic: int, count: int, rng: np.random.Generator) -> list[str]:
    """Return distinct short texts of a topic; the first is the topic's word alone.

    >>> common_texts(0, 4, np.random.default_rng(0))
    ['weather', 'weather radar', 'weather online yearly', 'weather rain']
    """
    texts = {TOPICS[topic][0]: None}
    while len(texts) < count:
        added = [word(topic, rng) for _ in range(1 + int(rng.random() < 0.3))]
        texts.setdefault(" ".join(dict.fromkeys([TOPICS[topic][0], *added])))
    return list(texts)


def reworded(
    base: str,
    added: Sequence[str],
    topic: int,
    used: Container[str],
    rng: np.random.Generator,
) -> tuple[str, tuple[str, ...]]:
    """Return a text that is not in `used`, and the words that it adds to `base`.

    One of the words that the running query adds (`added`) is replaced, or one more is added. If
    such texts are used up, the new text grows longer: the supply never ends.

    >>> reworded("weather", ["radar"], 0, {"weather"}, np.random.default_rng(1))
    ('weather radar online', ('radar', 'online'))
    """
    words, tries = list(added), 0
    while True:
        if len(words) >= _LONGEST + tries // 8 or (words and rng.random() < 0.4):
            words.pop(int(rng.integers(len(words))))
        words.append(word(topic, rng))
        words = list(dict.fromkeys(words))
        text = " ".join([base, *words])
        if text not in used:
            return text, tuple(words)
        tries += 1
