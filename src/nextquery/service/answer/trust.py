"""Whether a request's user is who it says: only then do we use a person's own past."""

from dataclasses import dataclass, field

from nextquery.errors import InvalidInput, WrongSignature
from nextquery.signing import is_signature


@dataclass(frozen=True)
class Trust:
    """The rule for user ids. A bare claim is accepted as a name, and never trusted.

    Parameters
    ----------
    signing_secret : the setting `user_signing_secret`; empty if ids are never signed.
    secret_before : the setting `user_signing_secret_before`, while secrets change.

    >>> Trust("").of("u-4", None, by_key=False), Trust("").of("u-4", None, by_key=True)
    (False, True)
    """

    signing_secret: str = field(repr=False)
    secret_before: str = field(default="", repr=False)

    def of(self, user_id: str | None, signature: str | None, *, by_key: bool) -> bool:
        """Whether the user id is proved by its signature, or vouched for by a trusted key.

        A signature must be right, whatever the key: otherwise this raises `WrongSignature`.
        """
        if signature is None:
            return by_key and user_id is not None
        if user_id is None:
            raise InvalidInput(
                "received user_signature without user_id. Send the user_id that was signed, or "
                "leave both out."
            )
        if not self.signing_secret:
            raise WrongSignature(
                "received a user_signature, but this service has no secret to check it with. Set "
                "user_signing_secret (NEXTQUERY_USER_SIGNING_SECRET) to the secret that your back "
                "end signs with, or leave user_signature out."
            )
        secrets = [secret for secret in (self.signing_secret, self.secret_before) if secret]
        if not any(is_signature(signature, secret, user_id) for secret in secrets):
            raise WrongSignature(
                "the user_signature is not that of this user_id. Allowed: the lower-case hex "
                "HMAC-SHA256 of nextquery-user, a zero byte and the exact user_id, with the key "
                "user_signing_secret (in Python nextquery.client.sign_user). Sign again, or leave "
                "user_signature out."
            )
        return True
