import pytest
import torch

from course_lib.masks import causal_mask, combine_masks, length_mask, padding_mask, sliding_window_mask


@pytest.mark.parametrize(("n", "m"), [(1, 1), (1, 5), (3, 5), (5, 3), (4, 4)])
def test_causal_is_aligned_at_the_bottom_right(n, m, device):
    mask = causal_mask(n, m, device)
    assert mask.dtype == torch.bool and mask.device.type == device
    assert mask.tolist() == [[j <= i + m - n for j in range(m)] for i in range(n)]


def test_one_token_decode_sees_the_whole_cache():
    assert causal_mask(1, 7).all()


def test_causal_needs_no_second_number():
    assert torch.equal(causal_mask(4), torch.ones(4, 4).tril().bool())


@pytest.mark.parametrize(("n", "m", "window"), [(5, 5, 1), (5, 5, 2), (3, 6, 2), (6, 3, 2), (1, 4, 3), (4, 4, 9)])
def test_sliding_window(n, m, window, device):
    mask = sliding_window_mask(n, window, m, device)
    assert mask.device.type == device
    assert mask.tolist() == [[i + m - n - window < j <= i + m - n for j in range(m)] for i in range(n)]


def test_window_below_one_is_refused():
    with pytest.raises(ValueError, match="window"):
        sliding_window_mask(3, 0)


def test_padding_hides_keys_wherever_the_padding_stands(device):
    tokens = torch.tensor([[0, 3, 9, 9], [9, 0, 9, 5], [9, 9, 9, 9]], device=device)
    mask = padding_mask(tokens, pad_id=9)
    assert mask.shape == (3, 1, 1, 4)  # not [B, 1, N, 1], which would hide queries
    assert mask[:, 0, 0].tolist() == [[True, True, False, False], [False, True, False, True], [False] * 4]
    assert padding_mask(tokens)[0, 0, 0].tolist() == [False, True, True, True]


def test_lengths(device):
    mask = length_mask(torch.tensor([2, 0, 3], device=device), n_keys=4)
    assert mask[:, 0, 0].int().tolist() == [[1, 1, 0, 0], [0, 0, 0, 0], [1, 1, 1, 0]]
    assert length_mask(torch.tensor([2, 1], device=device)).shape == (2, 1, 1, 2)


def test_wrong_shapes_are_refused():
    with pytest.raises(ValueError, match=r"\[B, M\]"):
        padding_mask(torch.tensor([1, 2]))
    with pytest.raises(ValueError, match=r"\[B\]"):
        length_mask(torch.tensor([[1, 2]]))


def test_combine_is_and_with_broadcasting():
    tokens = torch.tensor([[0, 5, 5], [5, 5, 0]])
    both = combine_masks(None, causal_mask(2, 3), padding_mask(tokens))
    assert both[:, 0].tolist() == [
        [[False, True, False], [False, True, True]],
        [[True, True, False], [True, True, False]],
    ]
    assert combine_masks(None, None) is None


def test_combine_refuses_additive_masks():
    with pytest.raises(TypeError, match="True = may attend"):
        combine_masks(torch.zeros(2, 2))
