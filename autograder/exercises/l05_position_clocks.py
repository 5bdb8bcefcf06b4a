"""Lesson 05, position clocks: digits, angular frequencies, the sinusoidal table, its shift matrix, relative scores, RoPE.

Shapes: N positions, d_model or d_k columns (even); B batch, h heads; `...` stands for leading dimensions, none included.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from autograder.exercise import Case, Draw, Mistake, exercise, question
from autograder.exercises.shared import Drawing, float64, gradients, noncontiguous
from autograder.text import both
from course_lib.positions import (
    angular_frequencies,
    rope_half_split,
    rope_interleaved,
    shift_matrix,
    sinusoidal_positions,
)

LESSON = "05_position_clocks"

BASE_IGNORED = both(
    "Right for a base of 10000 only: your result does not depend on the base that is handed in.",
    "只有底數是 10000 時才對：你的結果和傳進來的底數無關。",
)
HALVES = ("float16", torch.float16), ("bfloat16", torch.bfloat16)


def other_base(draw: Draw) -> float:
    """A base far enough from 10000 to show in every frequency but the first."""
    return draw.choice(50.0, 300.0, 1000.0, 500000.0)


def any_base(draw: Draw) -> float:
    """A base that float32 cannot hold: in float64 the rounding of it shows."""
    return draw.number(50.0, 900.0)


def asking(dtype: torch.dtype, draw: Drawing) -> Drawing:
    """The same arguments, and a dtype by name."""
    return lambda source: (draw(source), {"dtype": dtype})


# ---------------------------------------------------------------------------------------------- digit_periods


def digit_periods(n: int, base: int = 10) -> tuple[list[int], list[int]]:
    digits = [n % base]
    while n := n // base:
        digits.append(n % base)
    return digits, [base ** (i + 1) for i in range(len(digits))]


def number_of_digits(draw: Draw, base: int, count: int) -> int:
    """A number of `count` digits, the highest not 0 and another than the ones digit: no palindrome."""
    top = draw.integer(1, base - 1)
    ones = (top + draw.integer(1, base - 1)) % base
    middle = [draw.integer(0, base - 1) for _ in range(count - 2)]
    return sum(digit * base**i for i, digit in enumerate([ones, *middle, top]))


def draw_in_base(draw: Draw, low: int, high: int) -> tuple[int, int]:
    base = draw.integer(low, high)
    return number_of_digits(draw, base, draw.integer(4, 6)), base


def draw_named_base(draw: Draw) -> tuple[Any, ...]:
    base = draw.integer(12, 60)
    return (number_of_digits(draw, base, draw.integer(3, 4)),), {"base": base}


# Powers of which the computer's logarithm is a hair too small: log(1000, 10) = 2.9999999999999996.
POWERS = [(b**k, b) for b in range(3, 20) for k in range(2, 12) if int(math.log(b**k, b)) < k]
# And of which it is a hair too large: log(5³, 5) = 3.0000000000000004, so that rounding up gives 5³ − 1 a digit too many.
BELOW_POWERS = [(b**k - 1, b) for b in range(3, 20) for k in range(2, 12) if math.ceil(math.log(b**k, b)) > k]
NINES = [k for k in range(16, 26) if int(math.log(10**k - 1, 10)) == k]  # too close to 10**k for a float


def by_counting(count: Callable[[int, int], int]) -> Callable[..., Any]:
    """The digits of n, once their number is known."""

    def answer(n: int, base: int = 10) -> tuple[list[int], list[int]]:
        places = range(count(n, base))
        return [n // base**i % base for i in places], [base ** (i + 1) for i in places]

    return answer


def digits_of(n: int, base: int) -> list[int]:
    return [n % base] if n < base else [n % base, *digits_of(n // base, base)]


def digits_and_periods(n: int, base: int = 10) -> tuple[list[int], list[int]]:
    """As asked: for the wrong ones below to build on, where the reference itself may not be called."""
    digits = digits_of(n, base)
    return digits, [base**i for i in range(1, len(digits) + 1)]


def by_float_division(n: int, base: int = 10) -> tuple[list[int], list[int]]:
    digits = [n % base]
    while n >= base:
        n = int(n / base)
        digits.append(n % base)
    return digits, [base ** (i + 1) for i in range(len(digits))]


def nothing_for_zero(n: int, base: int = 10) -> tuple[list[int], list[int]]:
    return ([], []) if n == 0 else digits_and_periods(n, base)


def with_periods(period: Callable[[int, int], int]) -> Callable[..., Any]:
    """The right digits, with another period for place i."""

    def answer(n: int, base: int = 10) -> tuple[list[int], list[int]]:
        digits = digits_of(n, base)
        return digits, [period(base, i) for i in range(len(digits))]

    return answer


DECIMAL_PERIODS = both(
    "Your digits follow the base, your periods do not: they are those of decimal numbers.",
    "你的各位數用了底數，週期卻沒有：那是十進位的週期。",
)

LOGARITHM_ROUNDED = both(
    "Next to a power of the base you have a digit too few or too many: a logarithm computed in floating point may come out "
    "a hair too small or too large. Count with whole numbers only.",
    "在底數的次方附近，你會少一位或多一位：用浮點數算的對數，可能小了或大了一點點。請只用整數來數。",
)

exercise(
    name="digit_periods",
    lesson=LESSON,
    points=1,
    difficulty=1,
    reference=digit_periods,
    results=("digits", "periods"),
    cases=[
        Case(
            "decimal",
            both("a decimal number of 4 to 6 digits", "4 到 6 位的十進位數"),
            lambda d: (number_of_digits(d, 10, d.integer(4, 6)),),
            3,
        ),
        Case("base", both("another base, 2 to 9", "其他進位，2 到 9"), lambda d: draw_in_base(d, 2, 9), 2),
        Case("named", both("a base above 10, by name", "大於 10 的進位，用名稱給"), draw_named_base),
        Case(
            "zero",
            both("the number 0", "數字 0"),
            lambda d: (0, d.integer(2, 20)),
            0.5,
            trap=True,
        ),
        Case(
            "power",
            both("an exact power of the base", "剛好是底數的次方"),
            lambda d: d.choice(*POWERS),
            trap=True,
        ),
        Case(
            "below_power",
            both("one below a power of the base", "比底數的次方少 1"),
            lambda d: d.choice(*BELOW_POWERS),
            trap=True,
        ),
        Case(
            "many_nines",
            both("sixteen nines or more", "16 個以上的 9"),
            lambda d: (10 ** d.choice(*NINES) - 1,),
            0.5,
            trap=True,
        ),
        Case(
            "huge",
            both("a number far beyond 2⁵³", "遠大於 2⁵³ 的數"),
            lambda d: (number_of_digits(d, 10, d.integer(25, 30)),),
            trap=True,
        ),
    ],
    mistakes=[
        Mistake(
            "change_interval",
            with_periods(lambda base, i: base**i),
            both(
                "Your periods say how often a digit changes. Asked is how long it takes to come round: after one change "
                "the ones digit has not yet been through all its values.",
                "你算的是一位數隔多久變一次。這裡問的是多久繞完一圈：個位數變一次，還沒把所有的值走過一輪。",
            ),
        ),
        Mistake(
            "highest_digit_first",
            lambda n, base=10: (digits_of(n, base)[::-1], digits_and_periods(n, base)[1]),
            both(
                "Your digits stand as one writes them, the highest first. Start with the ones digit, so that each stands "
                "at the index of its period.",
                "你的數字照書寫的順序排，最高位在前。要從個位數排起，每一位才會和自己的週期在同一個索引。",
            ),
        ),
        Mistake(
            "both_from_the_top",
            lambda n, base=10: tuple(part[::-1] for part in digits_and_periods(n, base)),
            both(
                "Both lists run from the highest digit down. Start with the ones digit, the fastest clock.",
                "兩個串列都從最高位排下來。要從個位數、也就是最快的那個鐘排起。",
            ),
        ),
        Mistake(
            "base_ignored",
            lambda n, base=10: digits_and_periods(n, 10),
            both(
                "Right for decimal numbers only: your digits and periods do not depend on the base.",
                "只有十進位時才對：你的數字和週期與底數無關。",
            ),
        ),
        Mistake("periods_of_base_ten", with_periods(lambda base, i: 10 ** (i + 1)), DECIMAL_PERIODS),
        Mistake(
            "digits_of_base_ten",
            lambda n, base=10: (digits_of(n, 10), [base**i for i in range(1, len(digits_of(n, 10)) + 1)]),
            both(
                "Your periods follow the base, your digits do not: they are the decimal ones.",
                "你的週期用了底數，各位數卻沒有：那是十進位的寫法。",
            ),
        ),
        Mistake(
            "zero_has_no_digits",
            nothing_for_zero,
            both(
                "0 comes out without a digit. It is written with one digit, a 0, and that digit has a period as well.",
                "0 變成沒有任何一位數。0 寫出來有一位數，就是 0，這一位也有週期。",
            ),
        ),
        Mistake(
            "periods_linear",
            with_periods(lambda base, i: base * (i + 1)),
            both(
                "Your periods grow by the same amount from digit to digit. How many times does the ones digit come round "
                "before the next one has come round once?",
                "你的週期每升一位只多固定的量。下一位繞完一圈之前，個位數已經繞了幾圈？",
            ),
        ),
        Mistake(
            "text_digits",
            lambda n, base=10: (list(str(n))[::-1], [base ** (i + 1) for i in range(len(str(n)))]),
            both(
                "Your digits are pieces of text, cut out of the decimal writing. Asked are numbers (int), in any base.",
                "你的數字是從十進位寫法切下來的字串。這裡要的是數（int），而且任何進位都要能算。",
            ),
        ),
        Mistake(
            "logarithm_rounded",
            by_counting(lambda n, base: int(math.log(n, base)) + 1 if n else 1),
            LOGARITHM_ROUNDED,
            same_as=("logarithm_rounded_up",),
        ),
        Mistake(
            "logarithm_rounded_up",
            by_counting(lambda n, base: math.ceil(math.log(n + 1, base)) if n else 1),
            LOGARITHM_ROUNDED,
            same_as=("logarithm_rounded",),
        ),
        Mistake(
            "float_division",
            by_float_division,
            both(
                "Beyond 2⁵³ your digits are wrong: a division with / makes a float, which keeps 53 bits only. Divide whole "
                "numbers as whole numbers.",
                "超過 2⁵³ 之後數字就錯了：用 / 相除會變成浮點數，只留得住 53 個位元。整數請用整數的除法。",
            ),
        ),
    ],
    hints=[
        both(
            "The ones digit is what is left over when n is divided by the base. What is the ones digit of the rest?",
            "n 除以底數的餘數就是個位數。那麼商的個位數又是什麼？",
        ),
        both(
            "Stop when nothing is left, but not before the first digit is written down: 0 has one.",
            "除到什麼都不剩就停，但第一位要先寫下來：0 也有一位數。",
        ),
        both(
            "The ones digit repeats after as many steps as there are digits to choose from; the next one waits for a "
            "whole turn of it before each of its own steps.",
            "個位數有幾種數字可選，就隔幾步重複一次；下一位每走一步，都要等它繞完整整一圈。",
        ),
    ],
)

# ---------------------------------------------------------------------------------------- angular_frequencies


def pairs(d_model: int) -> Tensor:
    """0 … d_model/2 − 1, the numbers of the clocks.  [d_model/2]"""
    return torch.arange(d_model // 2, dtype=torch.float64)


def exact_frequencies(d_model: int, base: float = 10000.0) -> Tensor:
    return base ** (-2 * pairs(d_model) / d_model)


def by_exponents(exponents: Callable[[int], Tensor]) -> Callable[..., Tensor]:
    """base to the power of something else."""

    def answer(d_model: int, base: float = 10000.0, dtype: torch.dtype = torch.float32) -> Tensor:
        return (base ** exponents(d_model)).to(dtype)

    return answer


def of_frequencies(change: Callable[[Tensor], Tensor]) -> Callable[..., Tensor]:
    """The right frequencies, with something done to them."""

    def answer(d_model: int, base: float = 10000.0, dtype: torch.dtype = torch.float32) -> Tensor:
        return change(exact_frequencies(d_model, base)).to(dtype)

    return answer


def even(draw: Draw, low: int, high: int) -> int:
    """An even number of low, …, high."""
    return 2 * draw.integer(low // 2, high // 2)


EXPONENT_K_OVER_D = both(
    "Your exponent is i/d. In ω_i the index i numbers the pairs, and the pair's first column is 2i: where did the 2 go?",
    "你的指數是 i/d。ω_i 的 i 是「第幾對」，而這一對的第一個行（column）是 2i：2 到哪裡去了？",
)
INCREASING = both(
    "Your clocks become faster and faster with i: the sign of the exponent is the other way round. The first pair is the "
    "fastest.",
    "你的鐘隨 i 愈轉愈快：指數的正負號反了。最快的是第一對。",
)
EXPONENT_DOUBLED = both(
    "Your exponent is 4i/d: the 2 is counted twice. If your index already runs over the even columns, it needs no "
    "further factor.",
    "你的指數是 4i/d：2 乘了兩次。如果索引本來就只走偶數行（column），就不必再乘 2。",
)

exercise(
    name="angular_frequencies",
    lesson=LESSON,
    points=1,
    difficulty=2,
    reference=angular_frequencies,
    results=("ω",),
    cases=[
        Case("ordinary", both("the usual base", "通常的底數"), lambda d: (even(d, 6, 16),), 3),
        Case("base", both("another base", "其他底數"), lambda d: (even(d, 6, 12), other_base(d)), 2),
        Case(
            "named",
            both("the base by name", "用名稱給底數"),
            lambda d: ((even(d, 6, 12),), {"base": other_base(d)}),
        ),
        Case(
            "wide",
            both("d_model in the hundreds", "d_model 上百"),
            lambda d: (even(d, 256, 768),),
        ),
        Case(
            "one_clock",
            both("d_model = 2: a single clock", "d_model = 2：只有一個鐘"),
            lambda d: (2, other_base(d)),
            0.5,
            trap=True,
        ),
        *[
            Case(
                name,
                both(f"dtype {name} asked for", f"指定 dtype 為 {name}"),
                asking(dtype, lambda d: (even(d, 6, 16),)),
                1 if dtype == torch.float64 else 0.5,
                dtype,
                trap=True,
            )
            for name, dtype in (("float64", torch.float64), *HALVES)
        ],
        Case(
            "float64_base",
            both("dtype float64 asked for, another base", "指定 dtype 為 float64，其他底數"),
            asking(torch.float64, lambda d: (even(d, 6, 16), any_base(d))),
            1,
            torch.float64,
            trap=True,
        ),
    ],
    mistakes=[
        Mistake("exponent_k_over_d", by_exponents(lambda d: -pairs(d) / d), EXPONENT_K_OVER_D),
        Mistake("exponent_doubled", by_exponents(lambda d: -4 * pairs(d) / d), EXPONENT_DOUBLED),
        Mistake(
            "half_minus_one",
            by_exponents(lambda d: -pairs(d) / max(d // 2 - 1, 1)),
            both(
                "Your last frequency is exactly 1/base: the exponents run from 0 to 1 inclusive. One library does it so; "
                "the paper divides by d_model, and its last clock stays a little faster.",
                "你的最後一個頻率剛好是 1/base：指數從 0 一路走到 1。有個函式庫這樣寫；論文除的是 d_model，最後一個鐘會再快一點。",
            ),
        ),
        Mistake(
            "increasing",
            by_exponents(lambda d: 2 * pairs(d) / d),
            both(
                "Your frequencies grow with i, so the last clock is the fastest. The sign of the exponent is the other "
                "way round.",
                "你的頻率隨 i 變大，最後一個鐘反而最快。指數的正負號反了。",
            ),
        ),
        Mistake(
            "periods_returned",
            of_frequencies(lambda w: 2 * math.pi / w),
            both(
                "These are periods, steps for a whole turn. Asked are angular frequencies, radians for one step.",
                "這些是週期，也就是繞一圈要幾步。這裡要的是角頻率：一步轉多少弧度。",
            ),
        ),
        Mistake(
            "turns_returned",
            of_frequencies(lambda w: w / (2 * math.pi)),
            both(
                "You return turns per step. An angular frequency is measured in radians per step, so that it can go "
                "straight into a sine.",
                "你回傳的是每步幾圈。角頻率的單位是每步幾弧度，可以直接放進 sin 裡。",
            ),
        ),
        Mistake(
            "base_ignored",
            lambda d_model, base=10000.0, dtype=torch.float32: exact_frequencies(d_model).to(dtype),
            BASE_IGNORED,
        ),
        Mistake(
            "one_per_column",
            of_frequencies(lambda w: w.repeat_interleave(2)),
            both(
                "You return one frequency for each column. A sine and its cosine share a clock: half as many are asked "
                "for.",
                "你給每一行（column）各一個頻率。一個 sin 和它的 cos 共用一個鐘：只要一半的個數。",
            ),
        ),
        Mistake(
            "counted_from_one",
            by_exponents(lambda d: -2 * (pairs(d) + 1) / d),
            both(
                "Your first clock is already slowed down. i starts at 0, so that the first ω is 1: one radian a step.",
                "你的第一個鐘已經變慢了。i 從 0 開始，所以第一個 ω 是 1：一步一弧度。",
            ),
        ),
        Mistake(
            "slowest_first",
            of_frequencies(lambda w: w.flip(0)),
            both(
                "The right numbers, in the wrong order: the fastest clock comes first.",
                "數字都對，順序反了：最快的鐘排在最前面。",
            ),
        ),
    ],
    hints=[
        both(
            "How many clocks does a vector of d_model numbers hold, and what does i run over?",
            "d_model 個數放得下幾個鐘？i 從哪裡走到哪裡？",
        ),
        both(
            "Check the two ends for d_model = 4 by hand: the first clock turns by 1 radian a step, the second by 1/100.",
            "用 d_model = 4 手算核對兩端：第一個鐘一步轉 1 弧度，第二個轉 1/100。",
        ),
    ],
)

# --------------------------------------------------------------------------------------- sinusoidal_positions


def steps(n_positions: int, first: int = 0) -> Tensor:
    """Positions first, first + 1, … as a column.  [n_positions, 1]"""
    return torch.arange(first, first + n_positions, dtype=torch.float64)[:, None]


def side_by_side(first: Tensor, second: Tensor) -> Tensor:
    """first_0, second_0, first_1, second_1, … along the last axis."""
    return torch.stack((first, second), dim=-1).flatten(-2)


def in_halves(first: Tensor, second: Tensor) -> Tensor:
    return torch.cat((first, second), dim=-1)


def by_angles(
    sines: Callable[[Tensor, int, float], Tensor],
    cosines: Callable[[Tensor, int, float], Tensor] | None = None,
    join: Callable[[Tensor, Tensor], Tensor] = side_by_side,
    first: int = 0,
) -> Callable[..., Tensor]:
    """A table made of the angles that the two functions give for (positions, d_model, base)."""

    def answer(n_positions: int, d_model: int, base: float = 10000.0, dtype: torch.dtype = torch.float32) -> Tensor:
        pos = steps(n_positions, first)
        return join(sines(pos, d_model, base).sin(), (cosines or sines)(pos, d_model, base).cos()).to(dtype)

    return answer


def right_angles(pos: Tensor, d_model: int, base: float) -> Tensor:
    return pos * exact_frequencies(d_model, base)


def swapped(first: Tensor, second: Tensor) -> Tensor:
    return side_by_side(second, first)


def table_in_its_dtype(
    n_positions: int, d_model: int, base: float = 10000.0, dtype: torch.dtype = torch.float32
) -> Tensor:
    frequencies = (base ** (-2 * pairs(d_model) / d_model)).to(dtype)
    angles = torch.arange(n_positions).to(dtype)[:, None] * frequencies
    return side_by_side(angles.sin(), angles.cos())


def table_all_in_its_dtype(divided: bool) -> Callable[..., Tensor]:
    """Even the exponents are rounded, as `torch.arange(…, dtype=dtype)` does it."""

    def answer(n_positions: int, d_model: int, base: float = 10000.0, dtype: torch.dtype = torch.float32) -> Tensor:
        pos = torch.arange(n_positions, dtype=dtype)[:, None]
        exponents = torch.arange(0, d_model, 2, dtype=dtype) / d_model
        angles = pos / base**exponents if divided else pos * base**-exponents
        return side_by_side(angles.sin(), angles.cos())

    return answer


def table_with_rounded_positions(
    n_positions: int, d_model: int, base: float = 10000.0, dtype: torch.dtype = torch.float32
) -> Tensor:
    angles = steps(n_positions).to(dtype).double() * exact_frequencies(d_model, base)
    return side_by_side(angles.sin(), angles.cos()).to(dtype)


def table_with_rounded_angles(
    n_positions: int, d_model: int, base: float = 10000.0, dtype: torch.dtype = torch.float32
) -> Tensor:
    angles = (steps(n_positions) * exact_frequencies(d_model, base)).to(dtype)
    return side_by_side(angles.sin(), angles.cos())


def table_with_rounded_frequencies(
    n_positions: int, d_model: int, base: float = 10000.0, dtype: torch.dtype = torch.float32
) -> Tensor:
    angles = steps(n_positions) * exact_frequencies(d_model, base).to(dtype).double()
    return side_by_side(angles.sin(), angles.cos()).to(dtype)


HALF_PRECISION_ANGLES = both(
    "Right up to half precision: there your angles are rounded to a handful of bits before the sine is taken, and a "
    "bfloat16 cannot even count beyond 256. Make the angles in float32 and convert the result.",
    "半精度以外都對：在半精度時，你的角度先被捨入到只剩幾個位元才取 sin，bfloat16 甚至數不過 256。"
    "角度要用 float32 算，最後再轉換結果。",
)
ROUNDED_FREQUENCIES = both(
    "Your frequencies are rounded to half precision before they meet the position, so the error grows with the position. "
    "Convert the finished result only.",
    "你的頻率在乘上位置之前就被捨入成半精度，誤差會隨位置變大。請只轉換最後的結果。",
)
ROUNDED_POSITIONS = both(
    "Your positions are counted in half precision, where whole numbers run out: after 256 comes 258 in bfloat16, and "
    "float16 skips from 2048 on. Count in a dtype that can hold every position.",
    "你用半精度來數位置，而半精度的整數會不夠用：bfloat16 的 256 之後就是 258，float16 從 2048 起也會跳號。"
    "數位置要用每個位置都寫得出來的 dtype。",
)
ROUNDED_ANGLES = both(
    "Your angles are rounded to half precision before the sine is taken: at an angle in the hundreds that is a good part "
    "of a turn. Convert the finished result only.",
    "你的角度在取 sin 之前就被捨入成半精度：角度上百時，這會差掉一大段。請只轉換最後的結果。",
)
COLUMN_FOR_PAIR = both(
    "Your exponent takes i for the number of the column. In ω_i the index i numbers the pairs: columns 2i and 2i + 1 "
    "share one i.",
    "你的指數把 i 當成第幾行（column）。ω_i 的 i 是「第幾對」：第 2i 行和第 2i + 1 行共用同一個 i。",
)
FAR = 4000  # positions in the thousands

exercise(
    name="sinusoidal_positions",
    lesson=LESSON,
    points=2,
    difficulty=3,
    reference=sinusoidal_positions,
    results=("P",),
    cases=[
        Case(
            "ordinary",
            both("a few positions", "幾個位置"),
            lambda d: (d.integer(5, 12), even(d, 6, 14)),
            3,
            angle=12,
        ),
        Case(
            "base",
            both("another base", "其他底數"),
            lambda d: (d.integer(5, 9), even(d, 6, 10), other_base(d)),
            2,
            angle=9,
        ),
        Case(
            "named",
            both("the base by name", "用名稱給底數"),
            lambda d: ((d.integer(4, 9), even(d, 6, 10)), {"base": other_base(d)}),
            angle=9,
        ),
        Case(
            "one_position",
            both("one position only", "只有一個位置"),
            lambda d: (1, even(d, 4, 10)),
            0.5,
            trap=True,
            angle=1,
        ),
        Case(
            "one_clock",
            both("d_model = 2: a single clock", "d_model = 2：只有一個鐘"),
            lambda d: (d.integer(4, 9), 2, other_base(d)),
            0.5,
            trap=True,
            angle=9,
        ),
        Case(
            "thousands",
            both("thousands of positions", "上千個位置"),
            lambda d: (d.integer(2000, FAR), even(d, 4, 8)),
            trap=True,
            angle=FAR,
        ),
        Case(
            "float64",
            both("dtype float64 asked for", "指定 dtype 為 float64"),
            lambda d: ((d.integer(20, 40), even(d, 6, 12), any_base(d)), {"dtype": torch.float64}),
            1,
            torch.float64,
            trap=True,
            angle=40,
        ),
        *[
            Case(
                name,
                both(f"dtype {name} asked for, hundreds of positions", f"指定 dtype 為 {name}，上百個位置"),
                # No power of two: there the exponents are exact in any dtype.
                asking(dtype, lambda d: (d.integer(400, 700), d.choice(6, 10, 12))),
                0.5,
                dtype,
                trap=True,
                angle=700,
            )
            for name, dtype in HALVES
        ],
    ],
    mistakes=[
        Mistake(
            "halves_for_pairs",
            by_angles(right_angles, join=in_halves),
            both(
                "You put all sines first and all cosines after them. The paper sets them side by side: the two hands of a "
                "clock are neighbours.",
                "你把所有的 sin 排在前面、cos 排在後面。論文是一個 sin 一個 cos 交錯：同一個鐘的兩個座標是鄰居。",
            ),
        ),
        Mistake(
            "sin_cos_swapped",
            by_angles(right_angles, join=swapped),
            both(
                "Sine and cosine have changed places. Look at row 0: which of the two is 0 there?",
                "sin 和 cos 對調了。看第 0 列：哪一個在那裡等於 0？",
            ),
        ),
        Mistake(
            "positions_from_one",
            by_angles(right_angles, first=1),
            both(
                "Your first row is position 1. Positions are counted from 0.",
                "你的第一列是位置 1。位置從 0 數起。",
            ),
        ),
        Mistake(
            "own_frequency_per_column",
            by_angles(right_angles, lambda pos, d, base: pos * base ** (-(2 * pairs(d) + 1) / d)),
            both(
                "Your sines are right, your cosines turn a little slower: each column has its own exponent. A sine and "
                "the cosine beside it belong to one clock and share its ω.",
                "你的 sin 對了，cos 卻慢了一點：每一行（column）用了自己的指數。一個 sin 和旁邊的 cos 屬於同一個鐘，共用一個 ω。",
            ),
        ),
        Mistake(
            "column_for_pair",
            by_angles(
                lambda pos, d, base: pos * base ** (-4 * pairs(d) / d),
                lambda pos, d, base: pos * base ** (-2 * (2 * pairs(d) + 1) / d),
            ),
            COLUMN_FOR_PAIR,
        ),
        Mistake(
            "exponent_doubled",
            by_angles(lambda pos, d, base: pos * base ** (-4 * pairs(d) / d)),
            EXPONENT_DOUBLED,
        ),
        Mistake(
            "exponent_k_over_d",
            by_angles(lambda pos, d, base: pos * base ** (-pairs(d) / d)),
            EXPONENT_K_OVER_D,
        ),
        Mistake(
            "increasing",
            by_angles(lambda pos, d, base: pos * base ** (2 * pairs(d) / d)),
            both(
                "Your clocks become faster and faster with i. The formula divides the position by the power of the base.",
                "你的鐘隨 i 愈轉愈快。公式是把位置除以底數的次方。",
            ),
        ),
        Mistake("half_precision_throughout", table_in_its_dtype, HALF_PRECISION_ANGLES),
        Mistake("half_precision_exponents_too", table_all_in_its_dtype(divided=False), HALF_PRECISION_ANGLES),
        Mistake("half_precision_divided", table_all_in_its_dtype(divided=True), HALF_PRECISION_ANGLES),
        Mistake("half_precision_positions", table_with_rounded_positions, ROUNDED_POSITIONS),
        Mistake("half_precision_angles", table_with_rounded_angles, ROUNDED_ANGLES),
        Mistake("half_precision_frequencies", table_with_rounded_frequencies, ROUNDED_FREQUENCIES),
        Mistake("base_ignored", by_angles(lambda pos, d, base: right_angles(pos, d, 10000.0)), BASE_IGNORED),
    ],
    hints=[
        both(
            "Make the matrix of all angles first: one row for each position, one column for each clock.",
            "先做出所有角度的矩陣：一列一個位置，一行（column）一個鐘。",
        ),
        both(
            "Even columns take the sine of that matrix, odd columns the cosine. Slices with step 2 reach them.",
            "偶數行（column）放這個矩陣的 sin，奇數行放 cos。步長為 2 的切片就能取到它們。",
        ),
        both(
            "The dtype asked for is the dtype of the result. Angles need float32 at least, float64 for a float64 result.",
            "指定的 dtype 是結果的 dtype。角度至少要用 float32，結果是 float64 時就用 float64。",
        ),
    ],
)

# ----------------------------------------------------------------------------------------------- shift_matrix


def blocks(angles: Tensor, above: float = -1.0, below: float = 1.0, second: float = 1.0) -> Tensor:
    """Block-diagonal, [[cos, above · sin], [below · sin, second · cos]] for each angle."""
    sin, cos = angles.sin(), angles.cos()
    return torch.block_diag(*torch.stack((cos, above * sin, below * sin, second * cos), dim=-1).unflatten(-1, (2, 2)))


def by_blocks(
    angles: Callable[[int, int, float], Tensor] = lambda k, d, base: k * exact_frequencies(d, base),
    above: float = -1.0,
    below: float = 1.0,
    second: float = 1.0,
) -> Callable[..., Tensor]:
    def answer(k: int, d_model: int, base: float = 10000.0, dtype: torch.dtype = torch.float32) -> Tensor:
        return blocks(angles(k, d_model, base), above, below, second).to(dtype)

    return answer


def shift_in_halves(k: int, d_model: int, base: float = 10000.0, dtype: torch.dtype = torch.float32) -> Tensor:
    angles = k * exact_frequencies(d_model, base)
    sin, cos = torch.diag(angles.sin()), torch.diag(angles.cos())
    return torch.cat((torch.cat((cos, -sin), dim=1), torch.cat((sin, cos), dim=1))).to(dtype)


def shift_with_rounded_angles(
    k: int, d_model: int, base: float = 10000.0, dtype: torch.dtype = torch.float32
) -> Tensor:
    return blocks(k * exact_frequencies(d_model, base).to(dtype)).to(dtype)


def draw_shift(draw: Draw, low: int, high: int, *base: float, d: tuple[int, int] = (6, 10)) -> tuple[Any, ...]:
    return (draw.integer(low, high), even(draw, *d), *base)


exercise(
    name="shift_matrix",
    lesson=LESSON,
    points=3,
    difficulty=4,
    reference=shift_matrix,
    results=("M_k",),
    cases=[
        Case("ordinary", both("a shift by k > 1", "平移 k > 1 步"), lambda d: draw_shift(d, 2, 9), 3, angle=9),
        Case(
            "base",
            both("another base", "其他底數"),
            lambda d: draw_shift(d, 2, 9, other_base(d)),
            2,
            angle=9,
        ),
        Case(
            "named",
            both("a shift by 1, the base by name", "平移 1 步，用名稱給底數"),
            lambda d: (draw_shift(d, 1, 1), {"base": other_base(d)}),
            angle=1,
        ),
        Case("back", both("a shift back: k < 0", "往回平移：k < 0"), lambda d: draw_shift(d, -9, -2), 2, angle=9),
        Case("zero", both("no shift: k = 0", "不動：k = 0"), lambda d: draw_shift(d, 0, 0), 0.5, trap=True, angle=1),
        Case(
            "one_clock",
            both("d_model = 2: a single clock", "d_model = 2：只有一個鐘"),
            lambda d: draw_shift(d, 2, 9, d=(2, 2)),
            0.5,
            trap=True,
            angle=9,
        ),
        Case(
            "thousands",
            both("a shift by thousands", "平移上千步"),
            lambda d: draw_shift(d, 1500, FAR),
            trap=True,
            angle=FAR,
        ),
        Case(
            "float64",
            both("dtype float64 asked for", "指定 dtype 為 float64"),
            lambda d: (draw_shift(d, 2, 9, any_base(d)), {"dtype": torch.float64}),
            1,
            torch.float64,
            trap=True,
            angle=9,
        ),
        *[
            Case(
                name,
                both(f"dtype {name} asked for, a shift by hundreds", f"指定 dtype 為 {name}，平移上百步"),
                asking(dtype, lambda d: draw_shift(d, 400, 700)),
                0.5,
                dtype,
                trap=True,
                angle=700,
            )
            for name, dtype in HALVES
        ],
    ],
    mistakes=[
        Mistake(
            "rotates_backwards",
            by_blocks(above=1.0, below=-1.0),
            both(
                "Your matrix turns every clock back. It is the transpose of what is asked: the article multiplies a "
                "column by M_k from the left, here a row comes first.",
                "你的矩陣把每個鐘往回轉。它是答案的轉置：文章把 M_k 從左邊乘上行向量，這裡是列向量在前。",
            ),
        ),
        Mistake(
            "halves_for_pairs",
            shift_in_halves,
            both(
                "Your blocks join column i with column i + d/2. In this table the sine and the cosine of a clock stand "
                "side by side.",
                "你的區塊把第 i 行（column）和第 i + d/2 行配成一對。這張表裡，同一個鐘的 sin 和 cos 是相鄰的。",
            ),
        ),
        Mistake(
            "one_frequency",
            by_blocks(lambda k, d, base: torch.full((d // 2,), float(k), dtype=torch.float64)),
            both(
                "All your blocks turn by the same angle k. Each clock turns at its own speed.",
                "你的每個區塊都轉同樣的角度 k。每個鐘有自己的速度。",
            ),
        ),
        Mistake(
            "unit_shift_only",
            by_blocks(lambda k, d, base: exact_frequencies(d, base)),
            both(
                "Right for k = 1: your angles do not depend on k. How far does clock i turn in k steps?",
                "k = 1 時是對的：你的角度和 k 無關。走 k 步，第 i 個鐘轉了多少？",
            ),
        ),
        Mistake(
            "sign_of_k_lost",
            by_blocks(lambda k, d, base: abs(k) * exact_frequencies(d, base)),
            both(
                "Right for k ≥ 0. A negative k turns the clocks back.",
                "k ≥ 0 時是對的。k 是負的時候，鐘要往回轉。",
            ),
        ),
        Mistake(
            "cyclic_shift",
            lambda k, d_model, base=10000.0, dtype=torch.float32: torch.roll(torch.eye(d_model), k, 1).to(dtype),
            both(
                "You shift the coordinates along the vector. To go to the next position, the coordinates stay where they "
                "are and each clock turns.",
                "你把座標沿著向量平移了。換到下一個位置時，座標留在原地，是每個鐘在轉。",
            ),
        ),
        Mistake("exponent_k_over_d", by_blocks(lambda k, d, base: k * base ** (-pairs(d) / d)), EXPONENT_K_OVER_D),
        Mistake("exponent_doubled", by_blocks(lambda k, d, base: k * base ** (-4 * pairs(d) / d)), EXPONENT_DOUBLED),
        Mistake("increasing", by_blocks(lambda k, d, base: k * base ** (2 * pairs(d) / d)), INCREASING),
        Mistake(
            "reflection",
            by_blocks(above=1.0, below=1.0, second=-1.0),
            both(
                "Your blocks reflect: the minus stands at a cosine, and the determinant is −1. For k = 0 nothing should "
                "change, but the second coordinate of every pair comes out negative.",
                "你的區塊是鏡射：負號放在 cos 上，行列式是 −1。k = 0 時應該什麼都不變，你的每一對第二個座標卻變號了。",
            ),
        ),
        Mistake(
            "minus_sign_missing",
            by_blocks(above=1.0, below=1.0),
            both(
                "Both sines of your blocks have the same sign, so lengths are not kept. A rotation has one of each: see "
                "which of the two sum formulas has the minus.",
                "你的區塊裡兩個 sin 同號，長度就不能保持不變。旋轉矩陣是一正一負：看看哪一個和角公式有負號。",
            ),
        ),
        Mistake(
            "half_precision_angles",
            shift_with_rounded_angles,
            ROUNDED_FREQUENCIES,
        ),
        Mistake(
            "base_ignored",
            by_blocks(lambda k, d, base: k * exact_frequencies(d)),
            BASE_IGNORED,
        ),
    ],
    hints=[
        both(
            "Take one clock alone: write sin(α + θ) and cos(α + θ) with the sum formulas, as combinations of sin α and "
            "cos α. What is θ for clock i and k steps?",
            "先看一個鐘：用和角公式把 sin(α + θ) 和 cos(α + θ) 寫成 sin α 與 cos α 的組合。第 i 個鐘走 k 步，θ 是多少？",
        ),
        both(
            "A row times a matrix: column j of the block holds the weights for entry j of the result. The first column "
            "belongs to the new sine, the second to the new cosine.",
            "列向量乘矩陣：區塊的第 j 行（column）是結果第 j 個數的權重。第一行屬於新的 sin，第二行屬於新的 cos。",
        ),
        both(
            "Place the 2 × 2 blocks along the diagonal, clock i at rows and columns 2i and 2i + 1. Test it: row 0 of P is "
            "(0, 1, 0, 1, …).",
            "把 2 × 2 的區塊沿著對角線擺好，第 i 個鐘在第 2i、2i + 1 列與行。驗證看看：P 的第 0 列是 (0, 1, 0, 1, …)。",
        ),
    ],
)

# --------------------------------------------------------------------------------------------- relative_score


def relative_score(offsets: Tensor, d_model: int, base: float = 10000.0, dtype: torch.dtype = torch.float32) -> Tensor:
    angles = offsets[..., None] * angular_frequencies(d_model, base, torch.float64)  # [..., d_model/2]
    return angles.cos().sum(dim=-1).to(dtype)


def by_sum(
    terms: Callable[[Tensor, int], Tensor], exponents: Callable[[int], Tensor] = lambda d: -2 * pairs(d) / d
) -> Callable[..., Tensor]:
    """The sum over the clocks of something else of the angle; `terms` gets the angles and d_model."""

    def answer(offsets: Tensor, d_model: int, base: float = 10000.0, dtype: torch.dtype = torch.float32) -> Tensor:
        angles = offsets[..., None].double() * base ** exponents(d_model)
        return terms(angles, d_model).sum(dim=-1).to(dtype)

    return answer


def score_looked_up(offsets: Tensor, d_model: int, base: float = 10000.0, dtype: torch.dtype = torch.float32) -> Tensor:
    """From a table, where Python's negative indices count from the end."""
    table = sinusoidal_positions(int(offsets.abs().max()) + 1, d_model, base, torch.float64)
    return (table[0] * table[offsets]).sum(dim=-1).to(dtype)


def draw_offsets(draw: Draw, reach: int, *shape: int) -> Tensor:
    """Offsets of both signs, −2 and 3 among them where there is room."""
    offsets = draw.integers(-reach, reach, *shape)
    if offsets.numel() > 1:
        offsets.view(-1)[:2] = torch.tensor([-2, 3])
    return offsets


exercise(
    name="relative_score",
    lesson=LESSON,
    points=2,
    difficulty=3,
    reference=relative_score,
    results=("score",),
    cases=[
        Case(
            "ordinary",
            both("a row of offsets", "一列相對位置"),
            lambda d: (draw_offsets(d, 12, 7), even(d, 6, 12)),
            3,
            angle=100,
        ),
        Case(
            "matrix",
            both("a matrix of offsets", "一個矩陣的相對位置"),
            lambda d: (draw_offsets(d, 9, 4, 5), even(d, 6, 10)),
            2,
            angle=100,
        ),
        Case(
            "base",
            both("another base, offsets of three dimensions", "其他底數，3 維的相對位置"),
            lambda d: (draw_offsets(d, 9, 2, 3, 2), even(d, 6, 10), other_base(d)),
            2,
            angle=100,
        ),
        Case(
            "named",
            both("the base by name", "用名稱給底數"),
            lambda d: ((draw_offsets(d, 9, 5), even(d, 6, 10)), {"base": other_base(d)}),
            angle=100,
        ),
        Case(
            "ahead",
            both("positive offsets only", "只有正的相對位置"),
            lambda d: (d.integers(1, 20, 6), even(d, 6, 12)),
            angle=120,
        ),
        Case(
            "scalar",
            both("one offset (0-d)", "單一相對位置（0 維）"),
            lambda d: (torch.tensor(d.integer(2, 9)), even(d, 6, 12)),
            0.5,
            trap=True,
            angle=100,
        ),
        Case(
            "one_offset",
            both("one offset in a matrix of shape [1, 1]", "形狀 [1, 1] 的矩陣裡只有一個相對位置"),
            lambda d: (d.integers(2, 9, 1, 1), even(d, 6, 12)),
            0.5,
            trap=True,
            angle=100,
        ),
        Case(
            "one_clock",
            both("d_model = 2: a single clock", "d_model = 2：只有一個鐘"),
            lambda d: (draw_offsets(d, 9, 5), 2),
            0.5,
            trap=True,
            angle=9,
        ),
        Case(
            "thousands",
            both("offsets in the thousands", "上千的相對位置"),
            lambda d: (draw_offsets(d, FAR, 6), even(d, 6, 10)),
            trap=True,
            angle=5 * FAR,
        ),
        Case(
            "noncontiguous",
            both("offsets whose memory is not contiguous", "記憶體不連續的相對位置"),
            lambda d: (draw_offsets(d, 9, 5, 3).T, even(d, 6, 10)),
            trap=True,
            angle=100,
        ),
        Case(
            "float64",
            both("dtype float64 asked for", "指定 dtype 為 float64"),
            lambda d: ((draw_offsets(d, 12, 6), even(d, 6, 10)), {"dtype": torch.float64}),
            1,
            torch.float64,
            trap=True,
            angle=100,
        ),
        Case(
            "float64_base",
            both("dtype float64 asked for, another base", "指定 dtype 為 float64，其他底數"),
            lambda d: ((draw_offsets(d, 12, 6), even(d, 6, 10), any_base(d)), {"dtype": torch.float64}),
            1,
            torch.float64,
            trap=True,
            angle=100,
        ),
    ],
    mistakes=[
        Mistake(
            "sines_added",
            by_sum(lambda a, d: a.cos() + a.sin()),
            both(
                "You add the sines of the offset as well. The product of two positions is sin·sin + cos·cos for each "
                "clock: which sum formula is that?",
                "你把相對位置的 sin 也加進去了。兩個位置的內積，每個鐘是 sin·sin + cos·cos：這是哪一個和角公式？",
            ),
        ),
        Mistake(
            "sines_for_cosines",
            by_sum(lambda a, d: a.sin()),
            both(
                "You sum sines. At offset 0 a vector meets itself, and the score is its squared length, not 0.",
                "你加總的是 sin。相對位置 0 是向量和自己做內積，分數是長度的平方，不是 0。",
            ),
        ),
        Mistake(
            "averaged",
            by_sum(lambda a, d: a.cos() / (d / 2)),
            both(
                "You take the mean over the clocks. An inner product adds up.",
                "你對各個鐘取了平均。內積是加總。",
            ),
        ),
        Mistake(
            "counted_twice",
            by_sum(lambda a, d: 2 * a.cos()),
            both(
                "Twice too large: you sum over all d_model columns. Sine and cosine of a clock together give one cosine "
                "of the offset.",
                "大了一倍：你對 d_model 行（column）全部加總了。同一個鐘的 sin 和 cos 合起來，才是一個相對位置的 cos。",
            ),
        ),
        Mistake("exponent_k_over_d", by_sum(lambda a, d: a.cos(), lambda d: -pairs(d) / d), EXPONENT_K_OVER_D),
        Mistake("exponent_doubled", by_sum(lambda a, d: a.cos(), lambda d: -4 * pairs(d) / d), EXPONENT_DOUBLED),
        Mistake("increasing", by_sum(lambda a, d: a.cos(), lambda d: 2 * pairs(d) / d), INCREASING),
        Mistake(
            "position_with_itself",
            by_sum(lambda a, d: torch.ones_like(a)),
            both(
                "Your score does not depend on the offset: it is the squared length of a position's vector.",
                "你的分數和相對位置無關：那是位置向量自己的長度平方。",
            ),
        ),
        Mistake(
            "not_defined_backwards",
            by_sum(lambda a, d: torch.where(a < 0, 0.0, a.cos())),
            both(
                "Your score is 0 for negative offsets. A position may well be compared with an earlier one.",
                "相對位置是負的時候，你的分數是 0。一個位置當然可以和前面的位置比對。",
            ),
        ),
        Mistake(
            "negative_index",
            score_looked_up,
            both(
                "Right for offsets ≥ 0. You look the offset up in a table, and a negative index counts from the table's "
                "end.",
                "相對位置 ≥ 0 時是對的。你拿相對位置去查表，而負的索引會從表的尾端數起。",
            ),
        ),
        Mistake(
            "base_ignored",
            lambda offsets, d_model, base=10000.0, dtype=torch.float32: by_sum(lambda a, d: a.cos())(
                offsets, d_model, 10000.0, dtype
            ),
            BASE_IGNORED,
        ),
    ],
    hints=[
        both(
            "For one clock: the hand at angle α times the hand at angle β is sin α sin β + cos α cos β. That is a cosine.",
            "先看一個鐘：角度 α 的指針和角度 β 的指針做內積，是 sin α sin β + cos α cos β。那是一個 cos。",
        ),
        both(
            "No table is needed: one axis more than the offsets have holds the angles of all clocks; then add up along it.",
            "不需要查表：比相對位置多一個軸，放所有鐘的角度，再沿著這個軸加總。",
        ),
    ],
)

# ---------------------------------------------------------------------------------------------- RoPE, both layouts

Turn = Callable[[Tensor, Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]
Apart = Callable[[Tensor], tuple[Tensor, Tensor]]


def forwards(a: Tensor, b: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    return a * cos - b * sin, a * sin + b * cos


def backwards(a: Tensor, b: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    return a * cos + b * sin, b * cos - a * sin


def without_minus(a: Tensor, b: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    return a * cos + b * sin, a * sin + b * cos


def with_the_new_first(a: Tensor, b: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    first = a * cos - b * sin
    return first, first * sin + b * cos


def neighbours(x: Tensor) -> tuple[Tensor, Tensor]:
    return x[..., 0::2], x[..., 1::2]


def halves(x: Tensor) -> tuple[Tensor, Tensor]:
    first, second = x.chunk(2, dim=-1)
    return first, second


def every_position(x: Tensor, positions: Tensor) -> Tensor:
    return positions


def from_zero(x: Tensor, positions: Tensor) -> Tensor:
    return torch.arange(x.shape[-2])


def of_the_first_sentence(x: Tensor, positions: Tensor) -> Tensor:
    return positions.reshape(-1, positions.shape[-1])[0]


def with_an_axis_for_heads(x: Tensor, positions: Tensor) -> Tensor:
    return positions if positions.ndim == 1 else positions.reshape(len(positions), 1, -1)


def rope(
    apart: Apart,
    join: Callable[[Tensor, Tensor], Tensor],
    turn: Turn = forwards,
    exponents: Callable[[int], Tensor] = lambda d: -2 * pairs(d) / d,
    where: Callable[[Tensor, Tensor], Tensor] = every_position,
    fixed_base: float | None = None,
    narrow: bool = False,
) -> Callable[..., Tensor]:
    """RoPE from its parts; `narrow` makes the angles in the dtype of x."""

    def answer(x: Tensor, positions: Tensor, base: float = 10000.0) -> Tensor:
        wide = x.dtype if narrow else torch.promote_types(x.dtype, torch.float32)
        # In float32, as one writes it: where the frequencies are large, another rounding of them gives other angles.
        powers = exponents(x.shape[-1]).to(torch.promote_types(wide, torch.float32))
        frequencies = ((fixed_base or base) ** powers).to(wide)
        angles = where(x, positions)[..., None].to(wide) * frequencies
        return join(*turn(*apart(x), angles.cos(), angles.sin())).to(x.dtype)

    return answer


def plain_rope(apart: Apart, join: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Tensor]:
    """Angles in float32 (float64 for float64), all the rest in the dtype of x."""

    def answer(x: Tensor, positions: Tensor, base: float = 10000.0) -> Tensor:
        wide = torch.promote_types(x.dtype, torch.float32)
        angles = positions[..., None].to(wide) * exact_frequencies(x.shape[-1], base).to(wide)
        return join(*forwards(*apart(x), angles.cos().to(x.dtype), angles.sin().to(x.dtype)))

    return answer


def added_positions(x: Tensor, positions: Tensor, base: float = 10000.0) -> Tensor:
    angles = positions[..., None].double() * exact_frequencies(x.shape[-1], base)
    return (x + side_by_side(angles.sin(), angles.cos())).to(x.dtype)


def in_two_layouts(
    apart: Apart, join: Callable[[Tensor, Tensor], Tensor], spread: Callable[[Tensor, Tensor], Tensor]
) -> Callable[..., Tensor]:
    """x cos + (pairs turned by a right angle) sin, with `spread` laying the d_k / 2 frequencies over the d_k columns."""

    def answer(x: Tensor, positions: Tensor, base: float = 10000.0) -> Tensor:
        wide = torch.promote_types(x.dtype, torch.float32)
        frequencies = exact_frequencies(x.shape[-1], base).to(wide)
        angles = positions[..., None].to(wide) * spread(frequencies, frequencies)
        first, second = apart(x)
        return (x * angles.cos() + join(-second, first) * angles.sin()).to(x.dtype)

    return answer


def rising(draw: Draw, low: int, high: int, *shape: int) -> Tensor:
    """Positions that rise along the last axis with gaps, from low at least; the rows differ."""
    gaps = draw.integers(1, max(2, (high - low) // (shape[-1] + 1)), *shape)
    return low + gaps.cumsum(dim=-1) + draw.integers(0, 1, *shape[:-1], 1)


def run_of(draw: Draw, n: int) -> Tensor:
    return draw.integer(2, 9) + torch.arange(n)


def draw_heads(draw: Draw) -> tuple[Tensor, Tensor]:
    B, h, N = 2, draw.integer(2, 4), draw.integer(5, 6)
    return draw.normal(B, h, N, even(draw, 6, 10)), rising(draw, 1, 40, N)


def draw_batch(draw: Draw) -> tuple[Tensor, Tensor]:
    """Every sentence has positions of its own: [B, 1, N]."""
    B, h, N = 3, 2, draw.integer(4, 5)
    positions = rising(draw, 1, 30, B, 1, N) + 5 * torch.arange(B)[:, None, None]
    return draw.normal(B, h, N, even(draw, 6, 8)), positions


def draw_named_rope(draw: Draw) -> tuple[Any, ...]:
    N = draw.integer(4, 6)
    return (draw.normal(2, N, even(draw, 6, 8)), run_of(draw, N)), {"base": other_base(draw)}


SIZE = 4.0  # of the largest entries of x
ROPE_FAR = 9000  # beyond the tables of 4096 positions that some keep


def rope_cases() -> list[Case]:
    return [
        Case(
            "ordinary",
            both("one head, positions that do not start at 0", "一個頭，位置不從 0 開始"),
            lambda d: (d.normal(5, even(d, 6, 10)), run_of(d, 5)),
            3,
            angle=16 * SIZE,
        ),
        Case(
            "heads",
            both("batch and heads, positions with gaps", "批次與多個頭，位置有間隔"),
            draw_heads,
            2,
            angle=60 * SIZE,
        ),
        Case(
            "batch",
            both("positions of each sentence, [B, 1, N]", "每個句子各有位置，[B, 1, N]"),
            draw_batch,
            2,
            angle=60 * SIZE,
        ),
        Case(
            "sentences",
            both("no heads, positions of each sentence: [B, N]", "沒有頭的軸，每個句子各有位置：[B, N]"),
            lambda d: (d.normal(2, 5, even(d, 6, 8)), rising(d, 1, 30, 2, 5) + 5 * torch.arange(2)[:, None]),
            1,
            trap=True,
            angle=60 * SIZE,
        ),
        Case(
            "base",
            both("another base", "其他底數"),
            lambda d: (d.normal(4, even(d, 6, 8)), run_of(d, 4), other_base(d)),
            1,
            angle=16 * SIZE,
        ),
        Case("named", both("the base by name", "用名稱給底數"), draw_named_rope, 1, angle=16 * SIZE),
        Case(
            "one_token",
            both("a single token (N = 1)", "只有一個詞元（N = 1）"),
            lambda d: (d.normal(2, 3, 1, even(d, 6, 8)), torch.tensor([d.integer(3, 20)])),
            0.5,
            trap=True,
            angle=20 * SIZE,
        ),
        Case(
            "one_clock",
            both("d_k = 2: a single clock", "d_k = 2：只有一個鐘"),
            lambda d: (d.normal(4, 2), run_of(d, 4)),
            0.5,
            trap=True,
            angle=16 * SIZE,
        ),
        Case(
            "thousands",
            both("positions in the thousands", "上千的位置"),
            lambda d: (d.normal(2, 5, even(d, 6, 8)), rising(d, 1000, ROPE_FAR, 5)),
            trap=True,
            angle=ROPE_FAR * SIZE,
        ),
        *[
            Case(
                name,
                both(f"half precision: {name}, positions beyond 256", f"半精度：{name}，位置超過 256"),
                lambda d: (d.normal(2, 5, even(d, 6, 8)), rising(d, 300, FAR, 5)),
                0.5,
                dtype,
                trap=True,
                angle=FAR * SIZE,
            )
            for name, dtype in HALVES
        ],
        noncontiguous(lambda d: (d.normal(2, 3, 4, 6), run_of(d, 4)), 0.5),
        float64(lambda d: (d.normal(5, even(d, 6, 8)), run_of(d, 5), any_base(d))),
        gradients(lambda d: (d.normal(2, 4, even(d, 6, 8)), run_of(d, 4))),
    ]


FREQUENCIES_IN_HALVES = both(
    "Your pairs are neighbours, but the frequencies are laid out for the two halves, ω_0 ω_1 … ω_0 ω_1 …. Both members of "
    "a pair must turn at one speed: which columns make a pair here?",
    "你把相鄰的兩個配成一對，頻率卻是照前後對半擺的：ω_0 ω_1 … ω_0 ω_1 …。同一對要用同一個速度轉：這裡哪兩行（column）是一對？",
)
FREQUENCIES_SIDE_BY_SIDE = both(
    "You pair across the halves, but the frequencies are laid out for neighbours, ω_0 ω_0 ω_1 ω_1. Both members of a pair "
    "must turn at one speed: which columns make a pair here?",
    "你讓前後兩半配成一對，頻率卻是照相鄰排法擺的：ω_0 ω_0 ω_1 ω_1。同一對要用同一個速度轉：這裡哪兩行（column）是一對？",
)
BACKWARDS = both(
    "Your pairs turn the other way round. Scores of queries and keys would not notice, values do: compare with "
    "(a cos θ − b sin θ, a sin θ + b cos θ).",
    "你的每一對轉反了方向。查詢和鍵的分數看不出來，但數值不同：請和 (a cos θ − b sin θ, a sin θ + b cos θ) 比對。",
)
POSITIONS_IGNORED = both(
    "You count the rows 0, 1, 2, … and leave the argument positions unused. With a cache, a row may stand anywhere.",
    "你直接把各列數成 0、1、2……，沒有用到引數 positions。有快取的時候，一列可能在任何位置。",
)
FIRST_SENTENCE = both(
    "Right where all sentences share their positions. With positions of shape [B, 1, N] you use the first sentence's for "
    "all of them.",
    "所有句子的位置都一樣時是對的。positions 的形狀是 [B, 1, N] 時，你讓每個句子都用第一句的位置。",
)
HEADS_EXPECTED = both(
    "Right where x has an axis for the heads. Without one, x [B, N, d_k] and positions [B, N], you make room for it all the "
    "same, and the result has an axis more than x.",
    "x 有頭的軸時是對的。沒有的時候，x 是 [B, N, d_k]、positions 是 [B, N]，你還是替頭多留了一個軸，結果就比 x 多一個軸。",
)
ROPE_HALF_PRECISION = both(
    "Right in float32. In half precision your angles are rounded to a handful of bits: bfloat16 cannot tell position 257 "
    "from 256. Make the angles in float32 whatever the dtype of x.",
    "float32 時是對的。在半精度裡，你的角度被捨入到只剩幾個位元：bfloat16 分不出位置 257 和 256。"
    "不管 x 的 dtype 是什麼，角度都要用 float32 算。",
)
IDENTITY = both(
    "x comes back as it was. Every pair has to turn by its angle.",
    "x 原封不動地回來了。每一對都要轉過自己的角度。",
)
MINUS_MISSING = both(
    "One sine has lost its minus sign, so lengths change. A rotation keeps the length of every pair.",
    "有一個 sin 少了負號，長度因此改變。旋轉會保持每一對的長度。",
)
NEW_FIRST = both(
    "The second number of a pair is made from the first one after it was turned. Both must be made from the old pair: "
    "keep it until both are done.",
    "一對裡的第二個數，是用已經轉過的第一個數算出來的。兩個數都要用原來那一對來算：算完之前先留著。",
)

exercise(
    name="rope_interleaved",
    lesson=LESSON,
    points=3,
    difficulty=3,
    reference=rope_interleaved,
    plain=plain_rope(neighbours, side_by_side),
    cases=rope_cases(),
    mistakes=[
        Mistake(
            "half_split_layout",
            rope(halves, in_halves),
            both(
                "You pair coordinate i with i + d_k/2. That is the other layout; here neighbours make a pair.",
                "你把第 i 個座標和第 i + d_k/2 個配成一對。那是另一種排法；這裡是相鄰的兩個一對。",
            ),
        ),
        Mistake("rotates_backwards", rope(neighbours, side_by_side, backwards), BACKWARDS),
        Mistake(
            "output_not_interleaved",
            rope(neighbours, in_halves),
            both(
                "The right numbers in the wrong places: all first members of the pairs, then all second ones. Put each "
                "pair back where it came from.",
                "數字都對，位置不對：先是每一對的第一個，再是每一對的第二個。請把每一對放回原來的地方。",
            ),
        ),
        Mistake("positions_ignored", rope(neighbours, side_by_side, where=from_zero), POSITIONS_IGNORED),
        Mistake("first_sentence_only", rope(neighbours, side_by_side, where=of_the_first_sentence), FIRST_SENTENCE),
        Mistake("heads_expected", rope(neighbours, side_by_side, where=with_an_axis_for_heads), HEADS_EXPECTED),
        Mistake("half_precision_angles", rope(neighbours, side_by_side, narrow=True), ROPE_HALF_PRECISION),
        Mistake(
            "exponent_k_over_d",
            rope(neighbours, side_by_side, exponents=lambda d: -pairs(d) / d),
            EXPONENT_K_OVER_D,
        ),
        Mistake("increasing", rope(neighbours, side_by_side, exponents=lambda d: 2 * pairs(d) / d), INCREASING),
        Mistake("frequencies_in_halves", in_two_layouts(neighbours, side_by_side, in_halves), FREQUENCIES_IN_HALVES),
        Mistake("frequencies_interleaved", in_two_layouts(halves, in_halves, side_by_side), FREQUENCIES_SIDE_BY_SIDE),
        Mistake("minus_sign_missing", rope(neighbours, side_by_side, without_minus), MINUS_MISSING),
        Mistake("new_first_used", rope(neighbours, side_by_side, with_the_new_first), NEW_FIRST),
        Mistake(
            "added_not_turned",
            added_positions,
            both(
                "You add a vector of sines and cosines to x, as in 2017. RoPE adds nothing: it turns the pairs of x itself.",
                "你把一個 sin、cos 向量加到 x 上，那是 2017 年的做法。RoPE 什麼都不加：它轉的是 x 自己的每一對。",
            ),
        ),
        Mistake("identity", lambda x, positions, base=10000.0: x.clone(), IDENTITY),
        Mistake("base_ignored", rope(neighbours, side_by_side, fixed_base=10000.0), BASE_IGNORED),
    ],
    hints=[
        both(
            "Make one angle for each row and each pair; give positions one axis more, so that it broadcasts over the pairs.",
            "每一列、每一對各有一個角度；替 positions 多加一個軸，它就能對各對廣播。",
        ),
        both(
            "Slices with step 2 give all first members a and all second members b. Compute both new ones before you "
            "store either.",
            "步長為 2 的切片可以取出每一對的第一個 a 和第二個 b。兩個新的數都算好，再存回去。",
        ),
        both(
            "Put them back alternately: a new axis of length 2 behind the pairs, then the last two axes made into one.",
            "再交錯放回去：在各對後面加一個長度 2 的新軸，然後把最後兩個軸併成一個。",
        ),
    ],
)

exercise(
    name="rope_half_split",
    lesson=LESSON,
    points=3,
    difficulty=3,
    reference=rope_half_split,
    plain=plain_rope(halves, in_halves),
    cases=rope_cases(),
    mistakes=[
        Mistake(
            "interleaved_layout",
            rope(neighbours, side_by_side),
            both(
                "You pair neighbours. That is the other layout; here coordinate i makes a pair with i + d_k/2.",
                "你把相鄰的兩個配成一對。那是另一種排法；這裡是第 i 個和第 i + d_k/2 個一對。",
            ),
        ),
        Mistake("rotates_backwards", rope(halves, in_halves, backwards), BACKWARDS),
        Mistake("frequencies_interleaved", in_two_layouts(halves, in_halves, side_by_side), FREQUENCIES_SIDE_BY_SIDE),
        Mistake("frequencies_in_halves", in_two_layouts(neighbours, side_by_side, in_halves), FREQUENCIES_IN_HALVES),
        Mistake("minus_sign_missing", rope(halves, in_halves, without_minus), MINUS_MISSING),
        Mistake(
            "output_interleaved",
            rope(halves, side_by_side),
            both(
                "The right numbers in the wrong places: the members of a pair come out side by side. Put the first "
                "members into the first half and the second ones into the second.",
                "數字都對，位置不對：一對的兩個數排在一起了。第一個要放回前半，第二個放回後半。",
            ),
        ),
        Mistake("positions_ignored", rope(halves, in_halves, where=from_zero), POSITIONS_IGNORED),
        Mistake("first_sentence_only", rope(halves, in_halves, where=of_the_first_sentence), FIRST_SENTENCE),
        Mistake("heads_expected", rope(halves, in_halves, where=with_an_axis_for_heads), HEADS_EXPECTED),
        Mistake("half_precision_angles", rope(halves, in_halves, narrow=True), ROPE_HALF_PRECISION),
        Mistake("exponent_k_over_d", rope(halves, in_halves, exponents=lambda d: -pairs(d) / d), EXPONENT_K_OVER_D),
        Mistake("increasing", rope(halves, in_halves, exponents=lambda d: 2 * pairs(d) / d), INCREASING),
        Mistake("new_first_used", rope(halves, in_halves, with_the_new_first), NEW_FIRST),
        Mistake("identity", lambda x, positions, base=10000.0: x.clone(), IDENTITY),
        Mistake("base_ignored", rope(halves, in_halves, fixed_base=10000.0), BASE_IGNORED),
    ],
    hints=[
        both(
            "Cut x in the middle: the first half holds the first members of all pairs, the second half the second ones.",
            "把 x 從中間切開：前半是每一對的第一個，後半是每一對的第二個。",
        ),
        both(
            "Angles, signs and frequencies are those of the other layout; only who is paired with whom has changed.",
            "角度、正負號和頻率都跟另一種排法一樣；變的只有誰和誰一對。",
        ),
    ],
)

# -------------------------------------------------------------------------------------------------- questions


question(
    name="05_q1",
    lesson=LESSON,
    right="d",
    wrong=[
        Mistake(
            "last_dimensions",
            "a",
            both(
                "The reason is right. But the exponent of ω_i = 10000^(−2i/d) becomes more negative with i: the later the "
                "pair, the slower its clock.",
                "理由是對的。但 ω_i = 10000^(−2i/d) 的指數隨 i 愈來愈負：愈後面的一對，鐘轉得愈慢。",
            ),
        ),
        Mistake(
            "because_of_softmax",
            "b",
            both(
                "Softmax works on each row of scores by itself and keeps which weight belongs to which key. The order is "
                "lost before: scores and weighted sums do not ask where a key stands.",
                "softmax 對每一列分數各自計算，哪個權重屬於哪個鍵並沒有亂。順序早就不見了：分數和加權總和都不問一個鍵站在哪裡。",
            ),
        ),
        Mistake(
            "because_of_the_mask",
            "c",
            both(
                "It is the other way round: a causal mask is the one part that does tell earlier from later. Without any "
                "mask, attention sees a set.",
                "剛好相反：因果遮罩是唯一分得出先後的部分。完全沒有遮罩時，注意力看到的只是一個集合。",
            ),
        ),
    ],
    hints=[
        both(
            "Shuffle the input of lesson 02's self-attention: what happens to its output? And which hand of the clocks "
            "moved farthest from one position to the next?",
            "把第 02 課自注意力的輸入打亂，輸出會怎樣？從一個位置到下一個，哪個鐘的指針走得最遠？",
        ),
    ],
)
