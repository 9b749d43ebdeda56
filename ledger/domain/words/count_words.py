"""How many of something, as people read it."""


def counted(number: int, what: str) -> str:
    """The number, with its thousands set apart, and the word, with an s unless it is one: `1,200 records`."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"
