"""Small tasks to train on, made on the spot: nothing is downloaded, and the same seed gives the same data.

What is tested was never trained on: a held-out date appears in no spelling in the training part, a held-out number in
neither language, and no window of the held-out time series shares a value with a training window.
"""

import random
from collections.abc import Callable, Sequence
from datetime import date, timedelta
from typing import Generic, NamedTuple, TypeVar

import torch
from babel.dates import format_date
from torch import Tensor

Part = TypeVar("Part")
Pair = tuple[str, str]  # source text, target text


class Split(NamedTuple, Generic[Part]):
    """What a model learns from, and what it is tested on."""

    train: Part
    test: Part


class CharTokenizer:
    """A token for each character, and three more: padding (0), the start (1) and the end (2) of a text.

    Args:
        texts: their characters are the ones known.

    Example:
        >>> tokenizer = CharTokenizer(["民國114年"])
        >>> tokenizer.encode(["年", "41"])
        tensor([[1, 6, 2, 0],
                [1, 4, 3, 2]])
        >>> tokenizer.decode(tokenizer.encode(["年", "41"]))
        ['年', '41']
    """

    pad_id, bos_id, eos_id = 0, 1, 2

    def __init__(self, texts: Sequence[str]) -> None:
        self.characters = sorted(set().union(*texts))
        self.ids = {character: i for i, character in enumerate(self.characters, start=3)}
        self.vocab_size = 3 + len(self.characters)

    def encode(self, texts: Sequence[str], length: int | None = None) -> Tensor:
        """Start, characters, end, then padding on the right.

        Args:
            texts: B texts.
            length: N; what the longest text needs if not given.

        Returns:
            Token ids ``[B, N]``.

        Raises:
            ValueError: if a character is not known, or a text needs more than ``length`` tokens.
        """
        unknown = sorted(set().union(*texts) - self.ids.keys())
        if unknown:
            raise ValueError(f"characters that are not in the vocabulary: {' '.join(unknown)}")
        rows = [[self.bos_id, *(self.ids[character] for character in text), self.eos_id] for text in texts]
        longest = max(map(len, rows))
        length = longest if length is None else length
        if longest > length:
            raise ValueError(f"a text needs {longest} tokens, but there is room for {length}")
        return torch.tensor([row + [self.pad_id] * (length - len(row)) for row in rows])

    def decode(self, tokens: Tensor) -> list[str]:
        """The texts of token ids ``[B, N]``, each up to its first end token."""
        texts = []
        for row in tokens.tolist():
            end = row.index(self.eos_id) if self.eos_id in row else len(row)
            texts.append("".join(self.characters[token - 3] for token in row[:end] if token >= 3))
        return texts


# Number words

_ONES = [
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
]  # fmt: skip
_TENS = ["", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_CHINESE_DIGITS = "零一二三四五六七八九"


def english_number(n: int) -> str:
    """British English, 0 to 9999.

    Example:
        >>> english_number(2025)
        'two thousand and twenty-five'
    """
    _require_four_digits(n)
    if n < 20:
        return _ONES[n]
    if n < 100:
        return _TENS[n // 10] + (f"-{_ONES[n % 10]}" if n % 10 else "")
    unit, name = (1000, "thousand") if n >= 1000 else (100, "hundred")
    rest = n % unit
    joint = " and " if rest < 100 else " "
    return f"{_ONES[n // unit]} {name}" + (joint + english_number(rest) if rest else "")


def chinese_number(n: int) -> str:
    """Chinese as read out, 0 to 9999: 零 once for zeros inside, none for zeros at the end, 十 for a leading 一十.

    Example:
        >>> chinese_number(114), chinese_number(2005), chinese_number(18)
        ('一百一十四', '二千零五', '十八')
    """
    _require_four_digits(n)
    text, gap = "", False
    for unit, name in ((1000, "千"), (100, "百"), (10, "十"), (1, "")):
        digit = n // unit % 10
        if digit:
            text += ("零" if gap and text else "") + _CHINESE_DIGITS[digit] + name
        gap = digit == 0
    return text.removeprefix("一") if text.startswith("一十") else text or "零"


def _require_four_digits(n: int) -> None:
    if not 0 <= n <= 9999:
        raise ValueError(f"numbers from 0 to 9999 can be spelled, not {n}")


def number_words(n_train: int = 16_000, n_test: int = 2_000, seed: int = 0) -> Split[list[Pair]]:
    """English and Chinese number words to digits; one number in ten is held out, in both languages.

    Args:
        n_train, n_test: number of pairs, drawn with replacement.
        seed: chooses what is held out, and draws.

    Example:
        >>> number_words().train[:2]
        [('four thousand four hundred and seventy-two', '4472'), ('八千四百四十八', '8448')]
    """
    draw = random.Random(seed)

    def pair(n: int) -> Pair:
        return draw.choice((english_number, chinese_number))(n), str(n)

    return _draw_pairs(list(range(10_000)), pair, n_train, n_test, draw)


# Dates

FIRST_DATE, LAST_DATE = date(1912, 1, 1), date(2049, 12, 31)  # 民國 has no year before 元年, which is 1912


def minguo_year(day: date) -> int:
    """The year of the Republic of China: 1912 is year 1 (元年).

    Example:
        >>> minguo_year(date(2025, 3, 18))
        114
    """
    if day < FIRST_DATE:
        raise ValueError(f"{day} is before 民國元年 (1912)")
    return day.year - 1911


def _year_name(n: int) -> str:
    return "元" if n == 1 else str(n)  # the first year is never called 1年


def _in_words(day: date) -> str:
    year = "元" if day.year == 1912 else chinese_number(minguo_year(day))
    return f"民國{year}年{chinese_number(day.month)}月{chinese_number(day.day)}日"


def _digit_by_digit(day: date) -> str:
    year = "".join("〇一二三四五六七八九"[int(digit)] for digit in str(day.year))
    return f"{year}年{chinese_number(day.month)}月{chinese_number(day.day)}日"


def _babel(pattern: str, locale: str) -> Callable[[date], str]:
    return lambda day: format_date(day, pattern, locale=locale)


# Each spelling can be read in one way only, whatever the others are: two-digit years and days before months in bare
# numbers are left out, and a bare year below 1000 is Minguo.
SPELLINGS: dict[str, Callable[[date], str]] = {
    "民國114年3月18日": lambda day: f"民國{_year_name(minguo_year(day))}年{day.month}月{day.day}日",
    "民國114年03月18日": lambda day: f"民國{_year_name(minguo_year(day))}年{day:%m}月{day:%d}日",
    "中華民國114年3月18日": lambda day: f"中華民國{_year_name(minguo_year(day))}年{day.month}月{day.day}日",
    "民國一百一十四年三月十八日": _in_words,
    "114/3/18": lambda day: f"{minguo_year(day)}/{day.month}/{day.day}",
    "114.03.18": lambda day: f"{minguo_year(day)}.{day:%m}.{day:%d}",
    "1140318": lambda day: f"{minguo_year(day):03}{day:%m%d}",
    "西元2025年3月18日": _babel("Gy年M月d日", "zh_Hant_TW"),
    "2025年3月18日 星期二": _babel("full", "zh_Hant_TW"),
    "2025年3月18日": _babel("long", "zh_Hant"),
    "2025/3/18": _babel("short", "zh_Hant_TW"),
    "二〇二五年三月十八日": _digit_by_digit,
    "20250318": lambda day: f"{day:%Y%m%d}",
    "Tuesday, March 18, 2025": _babel("full", "en_US"),
    "March 18, 2025": _babel("long", "en_US"),
    "Mar 18, 2025": _babel("medium", "en_US"),
    "Tuesday, 18 March 2025": _babel("full", "en_GB"),
    "18 March 2025": _babel("long", "en_GB"),
    "18 Mar 2025": _babel("medium", "en_GB"),
}


def dates(n_train: int = 40_000, n_test: int = 2_000, seed: int = 0) -> Split[list[Pair]]:
    """Minguo and Western dates, in all of :data:`SPELLINGS`, to ISO 8601; one day in ten is held out, in all spellings.

    Args:
        n_train, n_test: number of pairs, drawn with replacement.
        seed: chooses what is held out, and draws.

    Example:
        >>> dates().train[:2]
        [('2026/10/20', '2026-10-20'), ('133/5/16', '2044-05-16')]
    """
    draw = random.Random(seed)
    days = [FIRST_DATE + timedelta(i) for i in range((LAST_DATE - FIRST_DATE).days + 1)]
    spellings = list(SPELLINGS.values())

    def pair(day: date) -> Pair:
        return draw.choice(spellings)(day), day.isoformat()

    return _draw_pairs(days, pair, n_train, n_test, draw)


Thing = TypeVar("Thing")


def _draw_pairs(
    things: list[Thing], pair: Callable[[Thing], Pair], n_train: int, n_test: int, draw: random.Random
) -> Split[list[Pair]]:
    """Hold out a tenth of the things themselves, then spell: whatever the spelling, no answer is in both parts."""
    draw.shuffle(things)
    held_out, known = things[: len(things) // 10], things[len(things) // 10 :]
    train = [pair(thing) for thing in draw.choices(known, k=n_train)]
    return Split(train, [pair(thing) for thing in draw.choices(held_out, k=n_test)])


# Images and a time series


def digits(seed: int = 0) -> Split[tuple[Tensor, Tensor]]:
    """scikit-learn's 1797 handwritten digits, no two of which are equal; a fifth of each class is held out.

    The same 13 people wrote both parts: the score is for new digits of known hands, not for new hands.

    Args:
        seed: chooses what is held out.

    Returns:
        For each part images ``[B, 1, 8, 8]``, from 0 to 1, and labels ``[B]``.

    Example:
        >>> images, labels = digits().train
        >>> images.shape, labels.shape
        (torch.Size([1437, 1, 8, 8]), torch.Size([1437]))
    """
    from sklearn.datasets import load_digits  # here: it takes a second, and only this task needs it
    from sklearn.model_selection import train_test_split

    raw = load_digits()
    images = torch.tensor(raw.images, dtype=torch.float32)[:, None] / 16
    labels = torch.tensor(raw.target)
    train, test = train_test_split(range(len(labels)), test_size=0.2, random_state=seed, stratify=raw.target)
    return Split((images[train], labels[train]), (images[test], labels[test]))


def mackey_glass(n: int, seed: int = 0) -> Tensor:
    """A series ``[n]`` that never repeats, of Mackey and Glass's equation with a delay of τ = 17.

    dx/dt = 0.2 x(t − τ) / (1 + x(t − τ)¹⁰) − 0.1 x(t), in steps of 0.1, one value a unit of time. It models the number
    of blood cells; being chaotic, it can be foretold for a while only.

    Args:
        n: number of values.
        seed: draws the state at the start, the effect of which is let fade.

    Reference: Mackey and Glass 1977, https://doi.org/10.1126/science.267326.
    """
    per_unit, delay, settle = 10, 17, 300
    x = [1.2 + random.Random(seed).uniform(-0.2, 0.2)] * (delay * per_unit + 1)
    for _ in range((settle + n) * per_unit):
        before = x[-1 - delay * per_unit]
        x.append(x[-1] + (0.2 * before / (1 + before**10) - 0.1 * x[-1]) / per_unit)
    return torch.tensor(x[-n * per_unit :: per_unit])


def time_series(n: int = 3000, window: int = 64, horizon: int = 8, seed: int = 0) -> Split[tuple[Tensor, Tensor]]:
    """Windows of :func:`mackey_glass` and what follows them. The past is trained on, the last fifth tested.

    Mean and deviation of the training part are made 0 and 1; the test part, being the future, has no say in them.

    Args:
        n: length of the series.
        window: number of values seen.
        horizon: number of values to foretell.
        seed: as in :func:`mackey_glass`.

    Returns:
        For each part windows ``[B, window]`` and what follows ``[B, horizon]``.

    Raises:
        ValueError: if a part is too short for one window.

    Example:
        >>> seen, next_values = time_series().train
        >>> seen.shape, next_values.shape
        (torch.Size([2329, 64]), torch.Size([2329, 8]))
    """
    series = mackey_glass(n, seed)
    cut = n - n // 5
    if n // 5 < window + horizon:
        raise ValueError(f"a fifth of {n} values has no room for {window} + {horizon}")
    series = (series - series[:cut].mean()) / series[:cut].std()

    def windows(part: Tensor) -> tuple[Tensor, Tensor]:
        both = part.unfold(0, window + horizon, 1)  # [B, window + horizon]
        return both[:, :window], both[:, window:]

    return Split(windows(series[:cut]), windows(series[cut:]))
