"""What a policy says about itself: `nextquery algorithms` and docs/many-armed.md show it."""

from typing import ClassVar


class About:
    """The facts of a policy, in plain text. Empty means that there is nothing to say.

    `assumptions` is one sentence: what must hold for the reference's results. `regret` is the bound
    that the reference proves, if we could confirm it. `reference` names the source.

    `order_matters` says why the state depends on the order of rewards, if it does. Such a policy
    learns each reward before its next choice. It rejects corrections and late feedback, and it
    cannot run where these happen: in the stream and in the service.
    """

    assumptions: ClassVar[str] = ""
    regret: ClassVar[str] = ""
    reference: ClassVar[str] = ""
    order_matters: ClassVar[str] = ""
