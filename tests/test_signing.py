"""Signatures of user ids, also as the documentation tells other languages to make them."""

import hashlib
import hmac
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from nextquery.client import sign_user
from nextquery.errors import InvalidInput
from nextquery.signing import is_signature

SECRET = "0123456789abcdef0123456789abcdef"
PAGE = (Path(__file__).parents[1] / "docs" / "users.md").read_text(encoding="utf-8")
IDS = ["u-4", "U-4", "zoë", "猫 ☕", "%s\\n"]


@pytest.mark.parametrize("user_id", IDS)
def test_a_signature_is_the_hmac_of_the_documentation(user_id: str) -> None:
    message = b"nextquery-user\x00" + user_id.encode()
    expected = hmac.new(SECRET.encode(), message, hashlib.sha256).hexdigest()
    assert sign_user(SECRET, user_id) == expected
    assert is_signature(expected, SECRET, user_id)
    assert not is_signature(expected.upper(), SECRET, user_id)


def test_nothing_but_the_signature_is_one() -> None:
    right = sign_user(SECRET, "u-4")
    wrong = ["", right[:-1], right + "0", "é" * 64, "\ud800", sign_user(SECRET, "U-4")]
    assert not any(is_signature(signature, SECRET, "u-4") for signature in wrong)
    assert not is_signature(right, SECRET + "x", "u-4")


@pytest.mark.parametrize(("secret", "user_id"), [("", "u"), (SECRET, ""), (SECRET, "\ud800")])
def test_what_cannot_be_signed(secret: str, user_id: str) -> None:
    with pytest.raises(InvalidInput):
        sign_user(secret, user_id)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
@pytest.mark.parametrize("user_id", IDS)
def test_the_line_for_a_shell(user_id: str) -> None:
    [line] = re.findall(r"^printf 'nextquery-user.*$", PAGE, re.MULTILINE)
    variables = os.environ | {"SECRET": SECRET, "USER_ID": user_id}
    done = subprocess.run(["sh", "-c", line], env=variables, capture_output=True, check=True)
    assert done.stdout.decode().strip() == sign_user(SECRET, user_id)


@pytest.mark.skipif(shutil.which("node") is None, reason="Node is not installed")
@pytest.mark.parametrize("user_id", IDS)
def test_the_line_for_node(user_id: str) -> None:
    [line] = re.findall(r"^require\(\"node:crypto\"\).*$", PAGE, re.MULTILINE)
    code = f"const [secret, userId] = process.argv.slice(1); console.log({line})"
    command = ["node", "-e", code, "--", SECRET, user_id]
    done = subprocess.run(command, capture_output=True, check=True)
    assert done.stdout.decode().strip() == sign_user(SECRET, user_id)
