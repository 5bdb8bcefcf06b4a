"""Every picture is drawn on awkward input, stays inside the notebook's width, and cuts no label off."""

import io
import sys
import types
import warnings
from xml.etree import ElementTree

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch

from course_lib import plots

matplotlib.use("Agg")


@pytest.fixture(autouse=True)
def close_figures():
    """No warning while a picture is drawn (missing glyphs, layouts that fail), and no figure left open."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield
    plt.close("all")


def written(ax):
    return [text.get_text() for text in ax.texts]


def assert_nothing_cut_off(figure):
    """Titles, tick labels, axis labels, legends and texts lie inside the figure."""
    figure.canvas.draw()
    renderer = figure.canvas.get_renderer()
    frame = figure.bbox.padded(1)
    for ax in figure.axes:
        parts = [ax.title, ax.xaxis.label, ax.yaxis.label, *ax.texts]
        parts += [ax.get_legend()] if ax.get_legend() else []
        if ax.axison:  # a tick outside the limits is not drawn
            for axis, which, (one, other) in ((ax.xaxis, 0, ax.get_xlim()), (ax.yaxis, 1, ax.get_ylim())):
                low, high = min(one, other), max(one, other)
                parts += [label for label in axis.get_ticklabels() if low <= label.get_position()[which] <= high]
        for part in parts:
            box = part.get_window_extent(renderer)
            if getattr(part, "get_text", lambda: "legend")() and box.width:
                assert frame.x0 <= box.x0 and box.x1 <= frame.x1, part
                assert frame.y0 - 1 <= box.y0 and box.y1 <= frame.y1 + 1, part


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_heat_map_writes_the_numbers_of_any_dtype(dtype):
    weights = torch.tensor([[0.25, 0.75], [0.5, 0.5]], dtype=dtype, requires_grad=True)
    ax = plots.heat_map(weights, ["it", "cat"], ["mat", "the"], "small")
    assert written(ax) == ["0.25", "0.75", "0.50", "0.50"]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["it", "cat"]
    assert [label.get_text() for label in ax.get_xticklabels()] == ["mat", "the"]
    assert ax.get_xlabel() == "key" and ax.get_ylabel() == "query"
    assert_nothing_cut_off(ax.figure)


def test_queries_go_down_and_keys_across():
    ax = plots.heat_map([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]])
    assert ax.images[0].get_array().shape == (2, 3)
    assert ax.yaxis_inverted()  # query 0 is the top row
    place = {text.get_text(): text.get_position() for text in ax.texts}
    assert place["5.00"] == (2, 1)


def test_large_map_has_a_colour_bar_instead_of_numbers():
    names = [f"token{i}" for i in range(30)]
    ax = plots.heat_map(torch.rand(30, 30), names, names, "thirty tokens")
    assert not ax.texts and len(ax.figure.axes) == 2
    assert_nothing_cut_off(ax.figure)


@pytest.mark.parametrize(
    "matrix",
    [torch.tensor(3.0), torch.rand(5), torch.rand(2, 3, 4, 5), torch.zeros(3, 3), torch.zeros(0, 4), [[float("nan")]]],
    ids=["number", "vector", "4-D", "zeros", "empty", "nan"],
)
def test_heat_map_of_anything(matrix):
    assert_nothing_cut_off(plots.heat_map(matrix).figure)


def test_heat_map_on_given_axes():
    figure, axes = plt.subplots(1, 2)
    assert plots.heat_map(torch.eye(2), ax=axes[1], values=False) is axes[1]
    assert not axes[0].images and len(figure.axes) == 2


def test_not_finite_entries_are_named():
    ax = plots.heat_map([[float("nan"), float("inf")], [-float("inf"), 1.0]])
    assert written(ax) == ["nan", "inf", "-inf", "1.00"]


def test_tiny_entries_are_zero_beside_large_ones_only():
    assert written(plots.heat_map([[1e-5, 0.9]])) == ["0.00", "0.90"]
    assert written(plots.heat_map([[1e-5, 2e-5]])) == ["1e-05", "2e-05"]


def test_labels_of_many_keys_do_not_run_into_each_other():
    tokens = ["[CLS]", "the", "cat", "sat", "on", "the", "mat", "because", "it", "was", "tired", ".", "[SEP]"]
    ax = plots.heat_map(torch.rand(13, 13), tokens, tokens, "a sentence")
    assert ax.get_xticklabels()[0].get_rotation() == 45
    assert plots.heat_map(torch.rand(3, 3), ["a"] * 3, ["b"] * 3).get_xticklabels()[0].get_rotation() == 0


def test_compare_shares_one_scale_and_frames_what_differs():
    expected = torch.rand(3, 4)
    yours = expected.clone()
    yours[1, 2] += 5
    figure = plots.compare_matrices(yours, expected)
    left, right = figure.axes[:2]
    assert left.images[0].norm is right.images[0].norm
    assert left.images[0].norm.vmax == pytest.approx(float(yours.max()))
    [frame] = left.patches
    assert frame.get_x() == pytest.approx(2 - 0.46) and frame.get_y() == pytest.approx(1 - 0.46)
    assert_nothing_cut_off(figure)


@pytest.mark.parametrize(
    ("yours", "expected"),
    [
        (torch.rand(2, 7), torch.rand(7, 2)),
        (torch.rand(4), torch.rand(3, 4, 5)),
        (torch.full((2, 2), float("nan")), torch.eye(2)),
        (torch.rand(0, 3), torch.rand(2, 3)),
        (torch.randn(100, 3), torch.randn(100, 3)),
        (torch.eye(3), torch.eye(3)),
        (np.float64(2.0), torch.tensor(-1.0)),
        (torch.randn(1, 300), torch.randn(1, 300)),
    ],
)
def test_compare_takes_any_two_shapes(yours, expected):
    figure = plots.compare_matrices(yours, expected, ("a", "b"))
    assert figure.get_figwidth() <= 7 and figure.get_figheight() <= 6
    assert figure.axes[0].get_title() == f"a  {list(np.shape(yours))}"
    assert_nothing_cut_off(figure)


def test_curves_with_theory_and_logarithms():
    ax = plots.curves(
        [1, 4, 16, 64],
        {"sample": [1.0, 3.9, 16.2, 63.0], "unit": [1.0, 1.0, 1.0, 1.0]},
        "$d_k$",
        "variance",
        "How it grows",
        log_x=True,
        log_y=True,
        theory={"sample": [1.0, 4.0, 16.0, 64.0]},
    )
    assert [line.get_label() for line in ax.lines] == ["sample", "unit", "sample (theory)"]
    assert ax.lines[0].get_color() == ax.lines[2].get_color()
    assert [label.get_text() for label in ax.get_xticklabels()] == ["1", "4", "16", "64"]
    assert ax.get_yscale() == "log"
    assert_nothing_cut_off(ax.figure)


def test_curves_take_tensors_and_lists_of_tensors():
    ax = plots.curves(torch.arange(50), {"a": [torch.tensor(float(i)) for i in range(50)]}, "x", "y")
    assert ax.lines[0].get_ydata()[-1] == 49 and ax.get_legend() is None


def test_counts_and_masks_are_written_without_decimals():
    assert written(plots.heat_map(torch.tensor([[8, 120], [0, 12345]]))) == ["8", "120", "0", "1e+04"]
    assert written(plots.heat_map(torch.ones(2, 2).tril().bool())) == ["1", "0", "1", "1"]
    assert written(plots.bars(["a", "b"], {"%": [80, 0]}, "%")) == ["80", "0"]


def test_bars_stand_side_by_side_with_their_numbers():
    ax = plots.bars(["tired", "soft"], {"cat": [0.71, 0.68], "mat": [0.1, 0.1]}, "weight", "it looks at")
    assert written(ax) == ["0.71", "0.68", "0.10", "0.10"]
    lefts = [bar.get_x() for bar in ax.patches]
    assert len(set(lefts)) == 4
    assert_nothing_cut_off(ax.figure)


def test_long_labels_are_turned_not_cut():
    ax = plots.bars([f"a long label {i}" for i in range(8)], {"w": [-1.0, 2.0] * 4}, "weight")
    assert ax.get_xticklabels()[0].get_rotation() == 40
    assert_nothing_cut_off(ax.figure)


def test_soft_lookup_draws_the_weights():
    ax = plots.soft_lookup("who is tired?", ["animals", "floors"], ["cat book", "mat book"], torch.tensor([0.9, 0.1]))
    assert {"0.90", "0.10", "animals", "mat book"} <= set(written(ax))
    widths = [patch.get_linewidth() for patch in ax.patches if type(patch).__name__ == "FancyArrowPatch"]
    assert widths[0] > 5 * widths[2]
    assert_nothing_cut_off(ax.figure)


def test_a_product_is_drawn_both_ways():
    A, B = [[2, -1, 0], [1, 3, 2]], torch.tensor([[1.0, 0, 2, 1], [3, 1, -1, 0], [0, 2, 1, 4]])
    figure = plots.product_two_ways(A, B, row=0, column=2)
    above, below = (half.get_suptitle() for half in figure.subfigs)
    assert above == "row 0 of A · column 2 of B = 2·2 + (−1)·(−1) + 0·1 = 5"
    assert below == "row 0 of C = 2·row 0 + (−1)·row 1 + 0·row 2 of B"
    for half in (0, 1):
        assert written(figure.axes[3 * half + 2]) == ["−1", "−1", "5", "2", "10", "7", "1", "9"]
    assert_nothing_cut_off(figure)


def test_clocks_hold_their_hands():
    vectors = torch.tensor([[0.0, 1.0, 1.0, 0.0], [0.0, -2.0, 0.6, 0.8]])
    figure = plots.clocks(vectors, rows=["pos 0", "pos 1"], columns=["clock 0", "clock 1"])
    hands = [ax.lines[-1] for ax in figure.axes]
    assert np.allclose([[hand.get_xdata()[1], hand.get_ydata()[1]] for hand in hands], vectors.view(4, 2))
    assert_nothing_cut_off(figure)
    assert len(plots.clocks(vectors[0]).axes) == 2
    assert_nothing_cut_off(plots.clocks(torch.ones(64), rows=["many"]))


def test_loss_surfaces_share_their_levels():
    steps = torch.linspace(-1, 1, 5)
    bowl = steps[:, None] ** 2 + steps**2
    figure = plots.loss_surfaces(steps, {"flat": 0.5 * bowl, "steep": 2 * bowl})
    assert [ax.get_title() for ax in figure.axes[:2]] == ["flat", "steep"]
    levels = [ax.collections[0].levels for ax in figure.axes[:2]]
    assert np.array_equal(levels[0], levels[1]) and levels[0][0] == 0 and levels[0][-1] >= 4
    assert_nothing_cut_off(figure)


def test_ticking_clocks_are_an_svg_whose_slow_clock_takes_longer():
    picture = ElementTree.fromstring(plots.ticking_clocks(torch.tensor([1.0, 0.1]), seconds=0.5, start=0).data)
    moves = list(picture.iter("{http://www.w3.org/2000/svg}animateTransform"))
    assert [move.get("dur") for move in moves] == ["3.14s", "31.42s"]
    assert all((move.get("from"), move.get("to")) == ("0.00", "360.00") for move in moves)  # clockwise, from twelve


@pytest.mark.parametrize(("causal", "visited"), [(False, 12), (True, 9)])
def test_walking_tiles_light_up_one_after_the_other(causal, visited):
    picture = ElementTree.fromstring(plots.walking_tiles(3, 4, causal=causal, seconds=0.5).data)
    moves = [move.get("values").split(";") for move in picture.iter("{http://www.w3.org/2000/svg}animate")]
    assert {len(move) for move in moves} == {visited + 2}
    tiles = [move for move in moves if plots.ORANGE in move]
    assert sorted(move.index(plots.ORANGE) for move in tiles) == list(range(visited))
    assert all(move.count(plots.ORANGE) == 1 for move in tiles)  # and is forgotten
    outputs = [move for move in moves if plots.GREEN in move]
    assert len(outputs) == 3 and all(move[-1] == plots.GREEN for move in outputs)


def test_knob_without_a_kernel_draws_once_at_the_start_values():
    seen = []
    plots.knob(lambda **numbers: seen.append(numbers), temperature=(0.1, 5.0, 0.1, 1.0), d_k=(1, 64, 1, 8))
    assert seen == [{"temperature": 1.0, "d_k": 8}]


def test_knob_without_ipywidgets_draws_once(monkeypatch):
    monkeypatch.setitem(sys.modules, "ipywidgets", None)  # importing it raises ImportError
    seen = []
    plots.knob(lambda tau: seen.append(tau), tau=(0.1, 5.0, 0.1, 1.0))
    assert seen == [1.0]


def test_knob_with_a_kernel_makes_sliders(monkeypatch):
    import IPython
    import ipywidgets

    calls = {}
    monkeypatch.setattr(IPython, "get_ipython", lambda: types.SimpleNamespace(kernel=object()))
    monkeypatch.setattr(ipywidgets, "interact", lambda draw, **controls: calls.update(controls, draw=draw))
    plots.knob(lambda **numbers: "a picture", tau=(0.1, 5.0, 0.1, 1.0), d_k=(1, 64, 1, 8))
    assert isinstance(calls["tau"], ipywidgets.FloatSlider) and isinstance(calls["d_k"], ipywidgets.IntSlider)
    assert (calls["tau"].min, calls["tau"].max, calls["tau"].value) == (0.1, 5.0, 1.0)
    assert calls["draw"](tau=2.0, d_k=4) is None  # interact would print whatever came back


def test_a_live_curve_is_drawn_anew_in_one_place(monkeypatch):
    """First shown, then updated; the last step is always drawn, and no figure is left open."""
    shown = []

    class Handle:
        def update(self, figure):
            shown.append(("update", figure.axes[0].get_title(), len(figure.axes[1].lines[0].get_xdata())))

    def display(figure, display_id):
        assert display_id
        figure.savefig(io.BytesIO())
        shown.append(("display", figure.axes[0].get_title(), len(figure.axes[1].lines[0].get_xdata())))
        return Handle()

    monkeypatch.setattr(plots, "_in_notebook", lambda: True)
    monkeypatch.setattr("IPython.display.display", display)
    report = plots.live_curve(3, "loss", "training", seconds=0.0)
    for step, loss in enumerate((2.0, 0.5, 0.1), start=1):
        report(step, loss)
    assert [(what, length) for what, _, length in shown] == [("display", 1), ("update", 2), ("update", 3)]
    assert shown[-1][1].startswith("training  step 3 of 3")
    assert plt.get_fignums() == []


def test_a_live_curve_outside_a_notebook_shows_nothing_and_draws_seldom():
    report = plots.live_curve(1000, "loss")
    for step in range(1, 1001):
        report(step, 1 / step)
    assert plt.get_fignums() == []
