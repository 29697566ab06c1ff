"""The order of the pages in the site's navigation, and the rooms of the library's reference."""

from typing import NamedTuple

NAVIGATION: dict[str, tuple[str, ...]] = {
    "Start": ("tutorial", "service", "javascript", "page"),
    "From a log to a pool": ("ingest", "growing", "privacy", "encoders", "training"),
    "Run the service": (
        *("configure", "access", "users", "suggestions", "segments"),
        *("deploy", "operate", "safe-learner", "experiments"),
        *("exchange", "repair", "rights", "security"),
    ),
    "Tables": ("explore",),
    "How it learns": ("learning", "ranking", "event-log", "off-policy"),
    "The paper": (
        *("paper", "replay", "many-armed", "rivals", "neural-rivals"),
        "measurements/paper-claims",
    ),
    "On a cluster": ("cluster", "cluster-operate", "greedi"),
    "Library reference": (),  # the rooms
    "Other reference": (
        *("reference/http", "api/http", "reference/settings", "reference/names"),
        *("reference/threats", "reference/personal-data", "reference/glossary"),
    ),
    "Measurements": (
        *("measurements/paper", "measurements/stream", "measurements/session-rec"),
        "measurements/neural-rivals",
        "measurements/paper-setting",
        *("measurements/learning", "measurements/off-policy", "measurements/encoders"),
        *("measurements/cluster", "measurements/greedi", "measurements/explore"),
        "project/benchmarks",
    ),
    "The project": (
        "architecture",
        "stability",
        "project/contributing",
        "project/changelog",
        "project/licences-of-the-logs",
    ),
}


class Room(NamedTuple):
    """A page of the library's reference."""

    name: str
    title: str
    about: str
    names: tuple[str, ...]  #: public names, or modules all of whose names are public


ROOMS = (
    Room("arms", "Arms", "Past queries with their vectors, and the exact search.", ("ArmPool",)),
    Room(
        "recommender",
        "The recommender",
        "The closed loop: recommend, observe, learn.",
        ("Recommender", "Session", "Learning", "Memory", "Personal", "Sessions"),
    ),
    Room(
        "select",
        "Selections",
        "From millions of arms to a few candidates.",
        (
            *("Selector", "Candidates", "MaxUtility", "RandomSelection", "Zooming"),
            *("PreferenceThreshold", "PreferenceSample", "Bump", "Power", "LambertPower"),
        ),
    ),
    Room(
        "policies",
        "Policies",
        "Pick a candidate, and learn from the outcome.",
        (
            *("policy", "Policy", "Context", "Choice", "LinUCB", "FeedbackUCB", "LinTS"),
            *("MostSimilar", "RandomPolicy"),
        ),
    ),
    Room("rivals", "Rivals", "Recommenders that are not bandits.", ("rival", "Rival", "Step")),
    Room(
        "maths",
        "Preferences, utilities, optimisers",
        "The paper's maths.",
        ("preference", "utility", "optimize"),
    ),
    Room("encode", "Encoders", "From texts to unit vectors.", ("encode",)),
    Room(
        "client",
        "Clients",
        "Call the service from Python.",
        (
            "Client",
            "AsyncClient",
            "client.Slate",
            "client.Suggestion",
            "client.Next",
            "client.sign_user",
        ),
    ),
    Room("errors", "Errors", "Every error that nextquery raises on purpose.", ("errors",)),
)
