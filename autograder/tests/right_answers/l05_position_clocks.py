"""Lesson 05: right answers by divmod or text, exp and log, loops, complex numbers, matrices, or tables looked up."""

import math

import torch


def digits_by_divmod(n, base=10):
    digits, periods = [], []
    while True:
        n, digit = divmod(n, base)
        digits.append(digit)
        periods.append(base ** len(digits))
        if n == 0:
            return digits, periods


def digits_by_powers(n, base=10):
    digits, periods, power = [], [], 1
    while power <= n or power == 1:
        digits.append(n // power % base)
        power *= base
        periods.append(power)
    return digits, periods


def digits_as_tuples(n, base=10):
    """Recursion, and tuples for lists."""

    def higher(rest, period):
        if rest == 0:
            return (), ()
        digits, periods = higher(rest // base, period * base)
        return (rest % base, *digits), (period, *periods)

    return higher(n, base) if n else ((0,), (base,))


def frequencies_by_power(d_model, base=10000.0, dtype=torch.float32):
    even = torch.arange(0, d_model, 2, dtype=torch.float64)
    return torch.pow(torch.tensor(base, dtype=torch.float64), -even / d_model).to(dtype)


def frequencies_by_exp(d_model, base=10000.0, dtype=torch.float32):
    wide = torch.promote_types(dtype, torch.float32)
    return torch.exp(torch.arange(0, d_model, 2).to(wide) * (-math.log(base) / d_model)).to(dtype)


def frequencies_by_division(d_model, base=10000.0, dtype=torch.float32):
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    return (1.0 / base ** (torch.arange(0, d_model, 2, dtype=wide) / d_model)).to(dtype)


def frequencies_by_list(d_model, base=10000.0, dtype=torch.float32):
    return torch.tensor([base ** (-2 * i / d_model) for i in range(d_model // 2)], dtype=dtype)


def table_by_slices(n_positions, d_model, base=10000.0, dtype=torch.float32):
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    P = torch.empty(n_positions, d_model, dtype=wide)
    position = torch.arange(n_positions, dtype=wide).unsqueeze(1)
    omega = torch.exp(torch.arange(0, d_model, 2, dtype=wide) * (-math.log(base) / d_model))
    P[:, 0::2] = torch.sin(position * omega)
    P[:, 1::2] = torch.cos(position * omega)
    return P.to(dtype)


def table_by_division(n_positions, d_model, base=10000.0, dtype=torch.float32):
    wide = torch.promote_types(dtype, torch.float32)
    angles = torch.outer(
        torch.arange(n_positions).to(wide), 1 / base ** (torch.arange(0, d_model, 2).to(wide) / d_model)
    )
    return torch.stack([angles.sin(), angles.cos()], -1).reshape(n_positions, d_model).to(dtype)


def table_by_loops(n_positions, d_model, base=10000.0, dtype=torch.float32):
    rows = []
    for pos in range(n_positions):
        row = []
        for i in range(d_model // 2):
            angle = pos / base ** (2 * i / d_model)
            row += [math.sin(angle), math.cos(angle)]
        rows.append(row)
    return torch.tensor(rows, dtype=dtype)


def table_by_phases(n_positions, d_model, base=10000.0, dtype=torch.float32):
    """cos is sin a quarter of a turn ahead; one frequency a column, each written twice."""
    columns = torch.arange(d_model)
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    omega = base ** (-(columns // 2 * 2).to(wide) / d_model)
    angles = torch.arange(n_positions, dtype=wide)[:, None] * omega + (columns % 2).to(wide) * (math.pi / 2)
    return torch.sin(angles).to(dtype)


def shift_by_slices(k, d_model, base=10000.0, dtype=torch.float32):
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    theta = k * base ** (-torch.arange(0, d_model, 2, dtype=wide) / d_model)
    M = torch.zeros(d_model, d_model, dtype=wide)
    even = torch.arange(0, d_model, 2)
    M[even, even] = theta.cos()
    M[even + 1, even + 1] = theta.cos()
    M[even, even + 1] = -theta.sin()
    M[even + 1, even] = theta.sin()
    return M.to(dtype)


def shift_by_loop(k, d_model, base=10000.0, dtype=torch.float32):
    M = torch.zeros(d_model, d_model, dtype=torch.float64)
    for i in range(0, d_model, 2):
        theta = k / base ** (i / d_model)
        c, s = math.cos(theta), math.sin(theta)
        M[i : i + 2, i : i + 2] = torch.tensor([[c, -s], [s, c]], dtype=torch.float64)
    return M.to(dtype)


def shift_by_exponential(k, d_model, base=10000.0, dtype=torch.float32):
    """The exponential of a block-diagonal matrix that makes every clock turn."""
    theta = k * base ** (-torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)
    turning = torch.block_diag(*[torch.tensor([[0.0, -t], [t, 0.0]], dtype=torch.float64) for t in theta % math.tau])
    return torch.linalg.matrix_exp(turning).to(dtype)


def score_by_cosines(offsets, d_model, base=10000.0, dtype=torch.float32):
    omega = base ** (-torch.arange(0, d_model, 2, dtype=dtype) / d_model)
    return torch.cos(offsets.unsqueeze(-1) * omega).sum(-1)


def score_from_a_table(offsets, d_model, base=10000.0, dtype=torch.float32):
    table = table_by_loops(int(offsets.abs().max()) + 1, d_model, base, torch.float64)
    return (table[offsets.abs()] @ table[0]).to(dtype)


def score_by_loop(offsets, d_model, base=10000.0, dtype=torch.float32):
    total = torch.zeros(offsets.shape, dtype=dtype)
    for i in range(d_model // 2):
        total = total + torch.cos(offsets.to(dtype) / base ** (2 * i / d_model))
    return total


def cos_and_sin(x, positions, base):
    wide = torch.float64 if x.dtype == torch.float64 else torch.float32
    omega = base ** (-torch.arange(0, x.shape[-1], 2, dtype=wide) / x.shape[-1])
    angles = positions.unsqueeze(-1) * omega
    return angles.cos(), angles.sin()


def interleaved_by_stack(x, positions, base=10000.0):
    cos, sin = cos_and_sin(x, positions, base)
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack([a * cos - b * sin, a * sin + b * cos], dim=-1).reshape(x.shape).to(x.dtype)


def interleaved_by_slices(x, positions, base=10000.0):
    cos, sin = cos_and_sin(x, positions, base)
    out = torch.empty_like(x)
    out[..., ::2] = (x[..., ::2] * cos - x[..., 1::2] * sin).to(x.dtype)
    out[..., 1::2] = (x[..., ::2] * sin + x[..., 1::2] * cos).to(x.dtype)
    return out


def interleaved_by_complex_numbers(x, positions, base=10000.0):
    """A pair is a complex number; turning is multiplying by e^{iθ}, as in Meta's Llama."""
    cos, sin = cos_and_sin(x, positions, base)
    z = torch.view_as_complex(x.to(cos.dtype).unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(z * torch.complex(cos, sin)).flatten(-2).to(x.dtype)


def interleaved_in_its_dtype(x, positions, base=10000.0):
    """Angles in float32, everything after the cosine in the dtype of x, as GPT-J does."""
    cos, sin = (part.to(x.dtype).repeat_interleave(2, dim=-1) for part in cos_and_sin(x, positions, base))
    rotated = torch.stack((-x[..., 1::2], x[..., ::2]), dim=-1).flatten(-2)
    return x * cos + rotated * sin


def half_split_by_cat(x, positions, base=10000.0):
    cos, sin = cos_and_sin(x, positions, base)
    half = x.shape[-1] // 2
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1).to(x.dtype)


def half_split_as_in_llama(x, positions, base=10000.0):
    """Angles in float32, everything after the cosine in the dtype of x."""
    cos, sin = (torch.cat((part, part), dim=-1).to(x.dtype) for part in cos_and_sin(x, positions, base))
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin


def half_split_by_permutation(x, positions, base=10000.0):
    """Bring the pairs together, turn them as neighbours, bring them apart again."""
    order = torch.arange(x.shape[-1]).view(2, -1).T.flatten()
    turned = interleaved_by_complex_numbers(x[..., order], positions, base)
    return turned[..., order.argsort()]


def half_split_by_unflatten(x, positions, base=10000.0):
    cos, sin = cos_and_sin(x, positions, base)
    a, b = x.to(cos.dtype).unflatten(-1, (2, -1)).unbind(-2)
    return torch.stack((a * cos - b * sin, a * sin + b * cos), dim=-2).flatten(-2).to(x.dtype)


RIGHT = {
    "digit_periods": [digits_by_divmod, digits_by_powers, digits_as_tuples],
    "angular_frequencies": [
        frequencies_by_power, frequencies_by_exp, frequencies_by_division, frequencies_by_list,
    ],
    "sinusoidal_positions": [table_by_slices, table_by_division, table_by_loops, table_by_phases],
    "shift_matrix": [shift_by_slices, shift_by_loop, shift_by_exponential],
    "relative_score": [score_by_cosines, score_from_a_table, score_by_loop],
    "rope_interleaved": [
        interleaved_by_stack, interleaved_by_slices, interleaved_by_complex_numbers, interleaved_in_its_dtype,
    ],
    "rope_half_split": [
        half_split_by_cat, half_split_as_in_llama, half_split_by_permutation, half_split_by_unflatten,
    ],
    "05_q1": ["d", "(D)"],
}  # fmt: skip
