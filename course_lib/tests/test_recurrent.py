import pytest
import torch
from torch import nn

from course_lib.recurrent import LSTM, RNN, lstm_step, rnn_step
from course_lib.tests.compare import DTYPES, HALF, assert_as_good, assert_close, gradients, randomise, typical

B, T, D_IN, D_H = 3, 6, 4, 5
KINDS = {"rnn": (RNN, nn.RNN), "lstm": (LSTM, nn.LSTM)}


def copy_recurrent(ours, theirs):
    """Weights of ``nn.RNN`` or ``nn.LSTM`` into ours: it has two biases where one is enough."""
    with torch.no_grad():
        for layer, (w_x, w_h) in enumerate(zip(ours.w_x, ours.w_h)):
            w_x.weight.copy_(getattr(theirs, f"weight_ih_l{layer}"))
            w_h.weight.copy_(getattr(theirs, f"weight_hh_l{layer}"))
            w_x.bias.copy_(getattr(theirs, f"bias_ih_l{layer}") + getattr(theirs, f"bias_hh_l{layer}"))


def their_parameters(theirs, n_layers):
    return [
        getattr(theirs, f"{name}_l{layer}")
        for layer in range(n_layers)
        for name in ("weight_ih", "weight_hh", "bias_ih")
    ]


def our_parameters(ours):
    return [p for w_x, w_h in zip(ours.w_x, ours.w_h) for p in (w_x.weight, w_h.weight, w_x.bias)]


def run(kind, module, x, states):
    """Outputs and last states in one list, from given first states or (if there are none) from zeros."""
    if kind == "rnn":
        output, last = module(x, *states)
        return [output, last]
    output, last = module(x, tuple(states) if states else None)
    return [output, *last]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("n_layers", [1, 3])
@pytest.mark.parametrize("given", [True, False], ids=["state given", "from zeros"])
@pytest.mark.parametrize("kind", KINDS)
def test_agrees_with_pytorch(kind, given, n_layers, dtype, device):
    Ours, Theirs = KINDS[kind]
    theirs = randomise(Theirs(D_IN, D_H, n_layers, batch_first=True)).to(device, torch.float64)
    ours = Ours(D_IN, D_H, n_layers).to(device, torch.float64)
    copy_recurrent(ours, theirs)  # summing two biases in float32 would already round
    ours = ours.to(dtype)

    n_states = {"rnn": 1, "lstm": 2}[kind] * given
    shapes = [(B, T, D_IN)] + [(n_layers, B, D_H)] * n_states
    inputs = [torch.randn(shape, device=device, dtype=dtype) for shape in shapes]
    parameters = {ours: our_parameters(ours), theirs: their_parameters(theirs, n_layers)}
    results, weights = [], None
    for module in (ours, theirs):
        to = parameters[module][0].dtype
        x, *states = (y.to(to).requires_grad_() for y in inputs)
        outputs = run(kind, module, x, states)
        weights = [torch.randn_like(y) for y in outputs] if weights is None else weights
        total = torch.cat([y.flatten() for y in outputs])  # outputs and last states all matter
        weight = torch.cat([w.flatten() for w in weights]).to(to)
        results.append((*outputs, *gradients(total, weight, [x, *states, *parameters[module]])))
    for mine, truth in zip(*results):
        assert_close(mine, truth.to(dtype), dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", KINDS)
def test_module_is_its_step_again_and_again(kind, dtype, device):
    module = randomise(KINDS[kind][0](D_IN, D_H)).to(device, dtype)
    x = torch.randn(B, T, D_IN, device=device, dtype=dtype)
    weight = torch.randn(B, T, D_H, device=device, dtype=dtype)

    def chain(x, w_x, w_h, b):
        h = c = torch.zeros_like(x[:, 0, :1]).expand(B, D_H)
        states = []
        for t in range(T):
            if kind == "rnn":
                h = rnn_step(x[:, t], h, w_x.T, w_h.T, b)
            else:
                h, c = lstm_step(x[:, t], h, c, w_x.T, w_h.T, b)
            states.append(h)
        return torch.stack(states, dim=1)

    results = []
    for to in (None, dtype, torch.float64):
        copies = [y.detach().to(to or dtype).requires_grad_() for y in (x, *our_parameters(module))]
        if to is None:
            copies = [copies[0], *our_parameters(module)]
        y = module(copies[0])[0] if to is None else chain(*copies)
        results.append((y, *gradients(y, weight.to(y.dtype), copies)))
    for mine, plain, truth in zip(*results):
        if dtype in HALF:
            assert_as_good(mine, plain, truth, size=typical)
        else:
            assert_close(mine, truth.to(dtype), dtype)


@pytest.mark.parametrize("kind", KINDS)
def test_a_sequence_may_be_read_in_two_parts(kind):
    module = randomise(KINDS[kind][0](D_IN, D_H, n_layers=2)).double()
    x = torch.randn(B, T, D_IN, dtype=torch.float64)
    whole, *last = run(kind, module, x, [])
    first, *between = run(kind, module, x[:, :2], [])
    second, *end = run(kind, module, x[:, 2:], between)
    torch.testing.assert_close(torch.cat((first, second), dim=1), whole)
    torch.testing.assert_close(end, last)


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_comes_from_the_future(kind):
    module = randomise(KINDS[kind][0](D_IN, D_H, n_layers=2)).double()
    x = torch.randn(1, T, D_IN, dtype=torch.float64)
    jacobian = torch.autograd.functional.jacobian(lambda x: module(x)[0], x)  # [1, T, d_h, 1, T, d_in]
    assert torch.equal(jacobian.abs().amax(dim=(0, 2, 3, 5)) > 0, torch.ones(T, T).tril().bool())


def test_steps_on_single_vectors_by_hand():
    """Without a batch, as the lecture writes it; W_H is not symmetric, so a transpose shows."""
    x, h = torch.tensor([1.0, -2.0]), torch.tensor([0.5, 0.25])
    W_X, W_H = torch.tensor([[0.1, 0.2], [0.3, 0.4]]), torch.tensor([[0.0, 1.0], [2.0, 0.0]])
    b = torch.tensor([0.05, -0.05])
    expected = torch.tensor([0.1 - 0.6 + 0.5 + 0.05, 0.2 - 0.8 + 0.5 - 0.05]).tanh()
    torch.testing.assert_close(rnn_step(x, h, W_X, W_H, b), expected)


@pytest.mark.parametrize("step", [rnn_step, lstm_step])
def test_steps_gradcheck(step):
    wide = D_H if step is rnn_step else 4 * D_H
    shapes = [(2, D_IN), (2, D_H), (D_IN, wide), (D_H, wide), (wide,)]
    if step is lstm_step:
        shapes.insert(2, (2, D_H))
    assert torch.autograd.gradcheck(step, [torch.randn(s, dtype=torch.float64, requires_grad=True) for s in shapes])


def test_open_forget_gate_keeps_the_gradient():
    """The point of the LSTM: with forget and input gates at 1 and 0 the cell, and its gradient, pass 100 steps."""
    gates = torch.tensor([-40.0, 40.0, 0.0, 0.0])
    c_0 = torch.tensor([0.7], dtype=torch.float64, requires_grad=True)
    h, c = torch.zeros(1, dtype=torch.float64), c_0
    for _ in range(100):
        h, c = lstm_step(h, h, c, torch.zeros(1, 4).double(), torch.zeros(1, 4).double(), gates.double())
    (gradient,) = torch.autograd.grad(c, c_0)
    assert c.item() == pytest.approx(0.7) and gradient.item() == pytest.approx(1)


def test_start_is_that_of_pytorch():
    for Ours, Theirs in KINDS.values():
        ours, theirs = Ours(400, 25), Theirs(400, 25)
        assert max(p.abs().max() for p in ours.parameters()) <= 25**-0.5
        for p, q in ((ours.w_x[0].weight, theirs.weight_ih_l0), (ours.w_h[0].weight, theirs.weight_hh_l0)):
            assert p.std().item() == pytest.approx(q.std().item(), rel=0.1)
