"""Small logs whose content is evident, for tests of whole commands."""

from pathlib import Path

ANIMALS = ("cat", "dog", "horse", "hamster", "parrot", "rabbit")
WISHES = ("food", "house", "vet", "toys", "training", "names")


def pets(path: Path, users: int = 30) -> Path:
    """Write a log of users who search for one animal and then for what it needs."""
    lines = ["user_id\tsession_id\ttime\tquery"]
    for user in range(users):
        animal = ANIMALS[user % len(ANIMALS)]
        for step, wish in enumerate(WISHES):
            query = f"{animal.title()} {wish}"
            lines.append(f"u{user}\ts{user}\t2024-01-{user % 28 + 1:02d} 10:{step:02d}:00\t{query}")
    path.write_text("\n".join(lines) + "\n")
    return path
