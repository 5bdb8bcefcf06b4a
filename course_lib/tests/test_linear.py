import pytest
import torch
import torch.nn.functional as F

from course_lib.linear import FEW, MANY, Linear, linear
from course_lib.tests.compare import assert_close, gradients


@pytest.mark.parametrize("shape", [(1,), (2, 1), (8, 1), (2, 3), (4, 2, 2), (1, 40)])
@pytest.mark.parametrize("bias", [True, False])
def test_agrees_with_pytorch_in_either_order(shape, bias, device):
    module = Linear(6, 9, bias=bias).to(device, torch.float64)
    x = torch.randn(*shape, 6, device=device, dtype=torch.float64, requires_grad=True)
    expected = F.linear(x, module.weight, module.bias)
    with torch.no_grad():
        assert_close(module(x), expected, torch.float64)
    weight = torch.randn_like(expected)
    for mine, theirs in zip(
        gradients(module(x), weight, [x, module.weight]), gradients(expected, weight, [x, module.weight])
    ):
        assert_close(mine, theirs, torch.float64)


@pytest.mark.parametrize("rows", [4, 5, 16, 17])
def test_order_changes_for_few_rows_only(rows, monkeypatch):
    def refuse(*_):
        raise AssertionError

    x, weight = torch.randn(rows, 1, 6), torch.randn(9, 6)
    expected = x @ weight.T
    monkeypatch.setattr("course_lib.linear.F.linear", refuse)
    with torch.no_grad():
        if FEW <= rows <= MANY:
            torch.testing.assert_close(linear(x, weight), expected)
        else:
            with pytest.raises(AssertionError):
                linear(x, weight)
