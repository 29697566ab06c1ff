"""The names that a shell completes after an option. The registries are loaded only for that."""


def policies() -> list[str]:
    """Return every policy and rival that a replay knows."""
    from nextquery.policies.registry import POLICIES
    from nextquery.research.rivals.registry import RIVALS, TRAINED

    return [*POLICIES, *RIVALS, *TRAINED]


def served_policies() -> list[str]:
    """Return the policies that can learn from users."""
    from nextquery.policies.registry import LIVE

    return list(LIVE)


def selections() -> list[str]:
    """Return the selections."""
    from nextquery.policies.registry import SELECTIONS

    return list(SELECTIONS)


def schedules() -> list[str]:
    """Return the schedules by which a candidate set grows."""
    from nextquery.policies.registry import SCHEDULES

    return ["none", *SCHEDULES]


def readings() -> list[str]:
    """Return the readings of the preference."""
    from nextquery.selection.preference import READINGS

    return list(READINGS)


def encoders() -> list[str]:
    """Return the encoders that `ingest` fits."""
    from nextquery.encode.auto import ENCODERS

    return ["auto", *ENCODERS]
