"""Keyed hashes (HMAC-SHA256), and the signature that proves who a user is."""

import hashlib
import hmac

from nextquery.errors import InvalidInput

_PURPOSE = "nextquery-user"


def keyed(secret: str, purpose: str, text: str) -> str:
    """Hash a text so that it cannot be looked up without the secret.

    >>> keyed("s", "user", "ann") == keyed("s", "user", "ann") != keyed("s", "text", "ann")
    True
    """
    return hmac.new(secret.encode(), f"{purpose}\0{text}".encode(), hashlib.sha256).hexdigest()


def sign_user(secret: str, user_id: str) -> str:
    """Return the `user_signature` of a user id, which your back end sends or hands to the page.

    It is the lower-case hex HMAC-SHA256 of ``"nextquery-user\\0" + user_id`` in UTF-8. Sign only
    ids of people who are logged in: whoever has the signature is this user to the service.

    Parameters
    ----------
    secret : the service's setting `user_signing_secret`.
    user_id : the id exactly as it is sent; another letter case is another person.

    >>> sign_user("0123456789abcdef0123456789abcdef", "u-4")[:16]
    '208ab1953cc11869'
    """
    if not secret:
        raise InvalidInput("the secret is empty. Pass the value of user_signing_secret.")
    if not user_id:
        raise InvalidInput("the user_id is empty. Sign only ids of people who are logged in.")
    try:
        return keyed(secret, _PURPOSE, user_id)
    except UnicodeEncodeError:
        raise InvalidInput(
            f"user_id {user_id!a} has a lone surrogate, which UTF-8 does not know. Pass whole "
            "characters."
        ) from None


def is_signature(signature: str, secret: str, user_id: str) -> bool:
    """Whether a signature is that of this user id; the comparison takes the same time for all.

    >>> secret = "0123456789abcdef0123456789abcdef"
    >>> is_signature(sign_user(secret, "u-4"), secret, "u-4"), is_signature("", secret, "u-4")
    (True, False)
    """
    expected = sign_user(secret, user_id).encode()
    return hmac.compare_digest(signature.encode("utf-8", "backslashreplace"), expected)
