"""A sentence in both languages of the course."""

LANGUAGES = ("en", "zh-TW")

Text = dict[str, str]


def both(en: str, zh: str) -> Text:
    """The same sentence for readers of English and of Traditional Chinese.

    >>> both("row", "列")["zh-TW"]
    '列'
    """
    return {"en": en, "zh-TW": zh}


def checked_language(language: str) -> str:
    """`language` itself, or a clear error.

    Raises:
        ValueError: if `language` is not one of `LANGUAGES`.
    """
    if language not in LANGUAGES:
        raise ValueError(f"unknown language {language!r}: use one of {', '.join(LANGUAGES)}")
    return language
