from datetime import date, timedelta

import pytest
import torch

from course_lib.tasks import (
    FIRST_DATE,
    LAST_DATE,
    SPELLINGS,
    CharTokenizer,
    chinese_number,
    dates,
    digits,
    english_number,
    mackey_glass,
    minguo_year,
    number_words,
    time_series,
)


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_every_spelling_is_named_by_18_march_2025(spelling):
    assert SPELLINGS[spelling](date(2025, 3, 18)) == spelling


@pytest.mark.parametrize(
    ("spelling", "day", "text"),
    [
        ("民國114年3月18日", date(1912, 1, 1), "民國元年1月1日"),
        ("中華民國114年3月18日", date(1912, 10, 10), "中華民國元年10月10日"),
        ("民國一百一十四年三月十八日", date(1912, 1, 1), "民國元年一月一日"),
        ("民國一百一十四年三月十八日", date(2016, 2, 29), "民國一百零五年二月二十九日"),
        ("民國一百一十四年三月十八日", date(2011, 10, 10), "民國一百年十月十日"),
        ("民國114年3月18日", date(2000, 2, 29), "民國89年2月29日"),
        ("114/3/18", date(2024, 2, 29), "113/2/29"),
        ("1140318", date(2010, 9, 9), "0990909"),
        ("1140318", date(1912, 2, 29), "0010229"),
        ("2025年3月18日 星期二", date(2024, 2, 29), "2024年2月29日 星期四"),
        ("二〇二五年三月十八日", date(2000, 2, 29), "二〇〇〇年二月二十九日"),
        ("Tuesday, March 18, 2025", date(1976, 2, 29), "Sunday, February 29, 1976"),
    ],
)
def test_known_dates(spelling, day, text):
    assert SPELLINGS[spelling](day) == text


def test_minguo_years():
    assert [minguo_year(date(y, 1, 1)) for y in (1912, 1945, 2000, 2011, 2025)] == [1, 34, 89, 100, 114]
    with pytest.raises(ValueError, match="1911-12-31 is before"):
        minguo_year(date(1911, 12, 31))


def test_no_text_has_two_readings():
    seen = {}
    for i in {*range(1000), *range(0, (LAST_DATE - FIRST_DATE).days + 1, 13)}:
        day = FIRST_DATE + timedelta(i)
        for spelling in SPELLINGS.values():
            assert seen.setdefault(spelling(day), day) == day


@pytest.mark.parametrize("task", [dates, number_words])
def test_answers_are_in_one_part_only(task):
    """Not the text but its meaning is held out: no other spelling of it was learned."""
    split = task(n_train=8000, n_test=1000)
    assert len(split.train) == 8000 and len(split.test) == 1000
    assert not {answer for _, answer in split.train} & {answer for _, answer in split.test}
    assert task(n_train=8000, n_test=1000) == split
    assert task(n_train=8000, n_test=1000, seed=1).test != split.test
    assert set("".join(s for s, _ in split.test)) <= set("".join(s for s, _ in split.train))


def test_all_spellings_and_leap_days_occur():
    split = dates(n_train=6000, n_test=1000)
    assert any(answer.endswith("02-29") for _, answer in split.train)
    for part in split:
        for spelling in SPELLINGS.values():
            assert sum(spelling(date.fromisoformat(answer)) == source for source, answer in part) > len(part) / 40


@pytest.mark.parametrize(
    ("n", "english", "chinese"),
    [
        (0, "zero", "零"),
        (7, "seven", "七"),
        (10, "ten", "十"),
        (18, "eighteen", "十八"),
        (20, "twenty", "二十"),
        (99, "ninety-nine", "九十九"),
        (100, "one hundred", "一百"),
        (101, "one hundred and one", "一百零一"),
        (110, "one hundred and ten", "一百一十"),
        (114, "one hundred and fourteen", "一百一十四"),
        (1000, "one thousand", "一千"),
        (1005, "one thousand and five", "一千零五"),
        (1050, "one thousand and fifty", "一千零五十"),
        (1500, "one thousand five hundred", "一千五百"),
        (2025, "two thousand and twenty-five", "二千零二十五"),
        (9999, "nine thousand nine hundred and ninety-nine", "九千九百九十九"),
    ],
)
def test_number_words(n, english, chinese):
    assert (english_number(n), chinese_number(n)) == (english, chinese)


def test_number_words_differ_and_end_at_9999():
    for spell in (english_number, chinese_number):
        assert len({spell(n) for n in range(10_000)}) == 10_000
        for n in (-1, 10_000):
            with pytest.raises(ValueError, match=f"not {n}"):
                spell(n)


def test_tokenizer():
    tokenizer = CharTokenizer(["3月18日", "18 Mar"])
    assert tokenizer.vocab_size == 3 + len(set("3月18日 Mar"))
    tokens = tokenizer.encode(["8月", "", "Mar 1"], length=9)
    assert tokens.shape == (3, 9)
    assert tokens[1].tolist() == [1, 2] + [0] * 7
    assert tokenizer.decode(tokens) == ["8月", "", "Mar 1"]
    junk_after_the_end = torch.cat((tokens, torch.full((3, 2), 5)), dim=1)
    assert tokenizer.decode(junk_after_the_end) == ["8月", "", "Mar 1"]
    assert tokenizer.decode(tokens[:, :3])[2] == "Ma"
    with pytest.raises(ValueError, match="vocabulary: 4 年"):
        tokenizer.encode(["14年"])
    with pytest.raises(ValueError, match="needs 5 tokens, but there is room for 4"):
        tokenizer.encode(["Mar"], length=4)


def test_digits():
    split = digits()
    flat = [{tuple(image) for image in images.flatten(1).tolist()} for images, _ in split]
    assert len(flat[0]) + len(flat[1]) == 1797 and not flat[0] & flat[1]
    for images, labels in split:
        assert images.min() == 0 and images.max() == 1
        assert (labels.bincount() / len(labels) - 0.1).abs().max() < 0.01
    assert torch.equal(digits().test[0], split.test[0])
    assert not torch.equal(digits(seed=1).test[0], split.test[0])


def test_time_series_solves_its_equation():
    """Its slope, measured from the values alone, is what the equation says."""
    series = mackey_glass(3000)
    assert series.shape == (3000,) and 0.3 < series.min() < 0.5 and 1.2 < series.max() < 1.4
    change = (series[19:] - series[17:-2]) / 2  # central difference at 18, 19, …
    delayed, now = series[1:-18], series[18:-1]
    assert (change - 0.2 * delayed / (1 + delayed**10) + 0.1 * now).abs().max() < 0.01
    assert torch.equal(mackey_glass(3000), series) and not torch.equal(mackey_glass(3000, seed=1), series)


def test_time_series_windows_do_not_overlap():
    (seen, following), (test_seen, test_following) = time_series(n=1000, window=20, horizon=3)
    assert seen.shape == (800 - 22, 20) and following.shape == (800 - 22, 3)
    assert torch.equal(seen[1:, -3:], torch.cat((seen[:-1, -2:], following[:-1, :1]), dim=1))
    assert seen[3:, :1].equal(seen[:-3, 3:4]) and following[0].equal(seen[3, -3:])
    series = mackey_glass(1000)
    mean, deviation = series[:800].mean(), series[:800].std()
    torch.testing.assert_close(following[-1] * deviation + mean, series[797:800])
    torch.testing.assert_close(test_seen[0] * deviation + mean, series[800:820])
    torch.testing.assert_close(test_following[-1] * deviation + mean, series[997:])
    with pytest.raises(ValueError, match="a fifth of 100 values"):
        time_series(n=100)
