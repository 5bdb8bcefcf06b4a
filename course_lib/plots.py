"""Pictures of the course: attention heat maps, curves, bars, a soft look-up, and a control with sliders.

All of them share one style: colours that colour-blind readers can tell apart (Okabe and Ito's palette for
categories, one rising lightness for weights), and a second sign beside the colour wherever curves meet (line
style, marker, number in the cell). Labels are short and English: a machine may have no Chinese font.

Every function takes torch tensors, numpy arrays or nested lists, and draws on a figure about 6.4 inches wide.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import cycle
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import torch
from cycler import cycler
from matplotlib.axes import Axes
from matplotlib.colors import CenteredNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Rectangle

BLUE, ORANGE, GREEN, PINK, AMBER, SKY, BLACK = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#E69F00",
    "#56B4E9",
    "#000000",
)
PALETTE = (BLUE, ORANGE, GREEN, PINK, AMBER, SKY, BLACK)
MARKERS = ("o", "s", "^", "D", "v", "P", "X")

WIDTH = 6.4  # inches
MOST_ROWS_WRITTEN = 16  # numbers stand in the cells up to this many rows
MOST_COLUMNS_WRITTEN = 12  # ... and columns: beyond, they would not be readable
MOST_TICK_LABELS = 40
SEQUENTIAL, DIVERGING = "Blues", "PuOr_r"


def use_style() -> None:
    """Set matplotlib's defaults to the course's style. The functions below call it themselves."""
    mpl.rcParams.update(
        {
            "figure.figsize": (WIDTH, 3.8),
            "figure.dpi": 110,
            "figure.constrained_layout.use": True,
            "figure.constrained_layout.h_pad": 0.08,
            "figure.constrained_layout.w_pad": 0.06,
            "font.size": 11,
            "axes.titlesize": 12,
            "axes.labelsize": 11,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.prop_cycle": cycler(color=PALETTE),
            "axes.grid": False,
            "grid.color": "#D9D9D9",
            "grid.linewidth": 0.8,
            "legend.frameon": False,
            "legend.fontsize": 10,
            "lines.linewidth": 2.0,
            "lines.markersize": 5,
            "image.cmap": SEQUENTIAL,
        }
    )


def heat_map(
    weights: Any,
    rows: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    title: str = "",
    ax: Axes | None = None,
    values: bool = True,
) -> Axes:
    """Draw a matrix as a heat map: queries go down, keys go across.

    Weights (nothing below 0) go from white to dark blue; a matrix with negative entries gets two colours that
    meet at 0. Entries that are NaN or infinite are grey.

    Args:
        weights: the matrix, ``[N, M]``. One row is made of ``[M]``; of ``[..., N, M]`` the first matrix is drawn.
        rows: names of the queries, ``N`` of them.
        columns: names of the keys, ``M`` of them.
        title: title above the map.
        ax: where to draw; a new figure when left out.
        values: write each number into its cell where the matrix is small enough to read them; else a colour bar.

    Returns:
        The axes drawn on.
    """
    use_style()
    matrix = _as_matrix(weights)
    own_figure = ax is None
    if ax is None:
        _, ax = plt.subplots(figsize=_map_size(matrix, columns))
    written = values and _readable(matrix)
    _draw_matrix(ax, matrix, _norm([matrix]), written)
    _label_axes(ax, matrix, rows, columns)
    if own_figure and not written:  # without numbers the colours need a key
        ax.figure.colorbar(ax.images[0], ax=ax, shrink=0.8, pad=0.02)
    if title:
        ax.set_title(title)
    return ax


def compare_matrices(yours: Any, expected: Any, names: tuple[str, str] = ("yours", "expected")) -> Figure:
    """Draw two matrices side by side in the same colours, and frame the entries that differ.

    Args:
        yours: the first matrix, of any shape (see `heat_map`).
        expected: the second one; its shape may be another.
        names: a title for each.

    Returns:
        The figure.
    """
    use_style()
    first, second = _as_matrix(yours), _as_matrix(expected)
    # Near-square cells, but never a strip too thin for its labels nor a tower too high for the screen.
    height = max(_map_height(matrix, WIDTH / 2) for matrix in (first, second))
    figure, axes = plt.subplots(1, 2, figsize=(WIDTH, height))
    norm = _norm([first, second])
    for ax, matrix, name in zip(axes, (first, second), names):
        _draw_matrix(ax, matrix, norm, _readable(matrix) and matrix.shape[1] <= MOST_COLUMNS_WRITTEN // 2)
        _label_axes(ax, matrix, None, None)
        ax.set_title(f"{name}  {list(np.shape(yours if matrix is first else expected))}")
    if first.shape == second.shape:
        _frame_differences(axes[0], first, second)
    figure.colorbar(axes[1].images[0], ax=list(axes), shrink=0.8, pad=0.02)
    return figure


def curves(
    x: Sequence[float],
    series: dict[str, Sequence[float]],
    xlabel: str,
    ylabel: str,
    title: str = "",
    log_x: bool = False,
    log_y: bool = False,
    theory: dict[str, Sequence[float]] | None = None,
) -> Axes:
    """Draw measured curves (with markers) and, dashed, what theory says.

    Args:
        x: the common horizontal axis, ``n`` numbers.
        series: name → ``n`` measured numbers.
        xlabel: label of the horizontal axis.
        ylabel: label of the vertical axis.
        title: title above the picture.
        log_x: logarithmic horizontal axis.
        log_y: logarithmic vertical axis.
        theory: name → ``n`` predicted numbers, drawn dashed; under the name of a measured curve, in its colour.

    Returns:
        The axes drawn on.
    """
    use_style()
    _, ax = plt.subplots()
    across = _as_array(x)
    colours: dict[str, str] = {}
    few = len(across) <= 30  # a marker at every point of a long curve is only a thicker line
    for (name, numbers), colour, marker in zip(series.items(), cycle(PALETTE), cycle(MARKERS)):
        colours[name] = colour
        every = 1 if few else max(1, len(across) // 12)
        # Points on a theory's line: two lines on top of each other would hide that they agree.
        line = "none" if few and name in (theory or {}) else "-"
        ax.plot(across, _as_array(numbers), ls=line, color=colour, marker=marker, markevery=every, label=name)
    for name, numbers in (theory or {}).items():
        label = f"{name} (theory)" if name in series else name
        ax.plot(across, _as_array(numbers), "--", color=colours.get(name, "#444444"), alpha=0.8, label=label, zorder=1)
    if log_x:
        ax.set_xscale("log")
        if len(across) <= 10:  # few points: say where they are, 64 and 512 rather than powers of ten
            ax.set_xticks(across, [f"{place:g}" for place in across])
            ax.minorticks_off()
    if log_y:
        ax.set_yscale("log")
    ax.set(xlabel=xlabel, ylabel=ylabel)
    if title:
        ax.set_title(title)
    ax.grid(True)
    if len(series) + len(theory or {}) > 1:
        ax.legend()
    return ax


def bars(labels: Sequence[str], series: dict[str, Sequence[float]], ylabel: str, title: str = "") -> Axes:
    """Draw groups of bars: one group a label, one bar a series in each group.

    Args:
        labels: names of the groups, ``n`` of them.
        series: name → ``n`` numbers.
        ylabel: label of the vertical axis.
        title: title above the picture.

    Returns:
        The axes drawn on.
    """
    use_style()
    _, ax = plt.subplots()
    places = np.arange(len(labels))
    width = 0.8 / max(1, len(series))
    # With few bars the number stands above each of them; with many it would run into its neighbour.
    write = len(labels) * len(series) <= 16
    hatches = ("", "//", "..", "xx", "\\\\", "--", "++")
    for i, ((name, numbers), colour, hatch) in enumerate(zip(series.items(), cycle(PALETTE), cycle(hatches))):
        shift = (i - (len(series) - 1) / 2) * width
        drawn = ax.bar(
            places + shift, _as_array(numbers), 0.92 * width, color=colour, hatch=hatch, edgecolor="white", label=name
        )
        if write:
            ax.bar_label(drawn, fmt=_number, padding=2, fontsize=9)
    crowded = sum(len(str(label)) for label in labels) > 55
    ax.set_xticks(places, [str(label) for label in labels])
    if crowded:
        plt.setp(ax.get_xticklabels(), rotation=40, ha="right", rotation_mode="anchor")
    ax.axhline(0, color="#444444", linewidth=0.8)
    ax.set_ylabel(ylabel)
    ax.margins(y=0.12)
    if title:
        ax.set_title(title)
    if len(series) > 1:
        ax.legend()
    return ax


def soft_lookup(query: str, keys: Sequence[str], values: Sequence[str], weights: Sequence[float]) -> Axes:
    """Draw one query against a shelf of keys, and the mixture of values that comes back.

    The width of each arrow is the weight of its book: a look-up that takes a part of every book.

    Args:
        query: what is asked.
        keys: what stands on each spine, ``M`` of them.
        values: what each book contains, ``M`` short names.
        weights: the ``M`` weights, which sum to 1.

    Returns:
        The axes drawn on.
    """
    use_style()
    shares = _as_array(weights)
    count = len(keys)
    _, ax = plt.subplots(figsize=(WIDTH, 0.62 * count + 1.1))
    middle = (count - 1) / 2
    _box(ax, 0.0, middle, query, AMBER)
    _box(ax, 8.1, middle, "output\n" + r"$\sum\,\alpha_j v_j$", SKY)
    for j, (key, value, share) in enumerate(zip(keys, values, shares)):
        y = count - 1 - j
        _box(ax, 2.75, y, key, "#DDDDDD")
        _box(ax, 5.3, y, value, "#DDDDDD")
        line = 0.4 + 9 * share
        _arrow(ax, (0.88, middle), (1.87, y), line, BLUE)
        _arrow(ax, (6.18, y), (7.22, middle), line, BLUE)
        ax.text(4.025, y, f"{share:.2f}", ha="center", va="center", fontsize=11, color=BLUE, weight="bold")
    for x, name in ((0.0, "query  $q$"), (2.75, "keys  $k_j$"), (4.025, r"$\alpha_j$"), (5.3, "values  $v_j$")):
        ax.text(x, count - 0.28, name, ha="center", va="bottom", fontsize=11)
    ax.set(xlim=(-0.95, 9.05), ylim=(-0.45, count + 0.15))
    ax.axis("off")
    return ax


def knob(draw: Callable[..., object], **sliders: tuple[float, float, float, float]) -> None:
    """Show a picture with a slider for each of its numbers; a static picture where there are no widgets.

    Args:
        draw: makes the picture; gets the numbers by name. Whatever it returns is not shown again.
        sliders: name = (low, high, step, start). Four ints make a slider of whole numbers.

    Example:
        >>> knob(draw_softmax, temperature=(0.1, 5.0, 0.1, 1.0))  # doctest: +SKIP
    """

    def redraw(**numbers: float) -> None:
        draw(**numbers)

    widgets = _widgets()
    if widgets is None:
        redraw(**{name: start for name, (_, _, _, start) in sliders.items()})
        return
    controls = {}
    for name, (low, high, step, start) in sliders.items():
        whole = all(isinstance(number, int) for number in (low, high, step, start))
        kind = widgets.IntSlider if whole else widgets.FloatSlider
        # One picture when the mouse is let go: redrawing all the way would lag behind it.
        controls[name] = kind(value=start, min=low, max=high, step=step, description=name, continuous_update=False)
    widgets.interact(redraw, **controls)


def _widgets() -> Any | None:
    """ipywidgets, if it is installed and a notebook's kernel is there to talk to; else None."""
    try:
        import ipywidgets
        from IPython import get_ipython
    except ImportError:
        return None
    shell = get_ipython()  # type: ignore[no-untyped-call,unused-ignore]
    return ipywidgets if getattr(shell, "kernel", None) is not None else None


def _as_array(numbers: Any) -> np.ndarray:
    """Any tensor, array or list as a float64 array; bfloat16 and gradients are no obstacle."""
    if isinstance(numbers, torch.Tensor):
        numbers = numbers.detach().cpu().double().numpy()
    elif isinstance(numbers, list | tuple):
        numbers = [_as_array(entry) for entry in numbers] if _holds_tensors(numbers) else numbers
    return np.asarray(numbers, dtype=float)


def _holds_tensors(numbers: Sequence[Any]) -> bool:
    return any(isinstance(entry, torch.Tensor) for entry in numbers)


def _as_matrix(numbers: Any) -> np.ndarray:
    """The first matrix of whatever it is: a number becomes 1 × 1, a vector one row."""
    array = _as_array(numbers)
    if array.ndim < 2:
        return array.reshape(1, -1)
    while array.ndim > 2:
        if array.shape[0] == 0:
            return np.zeros((0, array.shape[-1]))
        array = array[0]
    return array


def _norm(matrices: Sequence[np.ndarray]) -> Normalize:
    """One scale of colours for all of them: from 0 up, or around 0 if something is negative."""
    finite = np.concatenate([matrix[np.isfinite(matrix)] for matrix in matrices])
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    if low < 0:
        return CenteredNorm(vcenter=0, halfrange=max(-low, high))
    return Normalize(vmin=0, vmax=high if high > 0 else 1.0)


def _readable(matrix: np.ndarray) -> bool:
    """Whether numbers fit into the cells."""
    return matrix.shape[0] <= MOST_ROWS_WRITTEN and matrix.shape[1] <= MOST_COLUMNS_WRITTEN


def _colour_map(norm: Normalize) -> mpl.colors.Colormap:
    return mpl.colormaps[DIVERGING if isinstance(norm, CenteredNorm) else SEQUENTIAL].with_extremes(bad="#BBBBBB")


def _draw_matrix(ax: Axes, matrix: np.ndarray, norm: Normalize, write: bool) -> None:
    height, width = matrix.shape
    if matrix.size == 0:
        ax.text(0.5, 0.5, "empty", ha="center", va="center", transform=ax.transAxes)
        matrix = np.full((1, 1), np.nan)
    colours = _colour_map(norm)
    shown = np.ma.masked_invalid(matrix)
    ax.imshow(shown, cmap=colours, norm=norm, aspect="auto", interpolation="nearest")
    for side in ("top", "right", "bottom", "left"):
        ax.spines[side].set_visible(False)
    if not write:
        return
    largest = float(np.abs(matrix[np.isfinite(matrix)]).max(initial=0.0))
    for i, j in np.ndindex(height, width):
        entry = float(matrix[i, j])
        red, green, blue, _ = colours(norm(entry)) if np.isfinite(entry) else (0.73, 0.73, 0.73, 1)
        dark = 0.299 * red + 0.587 * green + 0.114 * blue < 0.5
        size = 10 if width <= 8 else 8
        ax.text(
            j, i, _number(entry, largest), ha="center", va="center", fontsize=size, color="white" if dark else "black"
        )


def _number(entry: float, largest: float = 0.0) -> str:
    """At most five characters: 0.25, -3.10, 120, 1e+04, nan; beside `largest`, something tiny is 0.00."""
    if not np.isfinite(entry):
        return "nan" if np.isnan(entry) else ("inf" if entry > 0 else "-inf")
    size = abs(entry)
    if size == 0 or (size < 0.005 and largest >= 0.1):
        return "0.00"
    if 0.005 <= size < 10:
        return f"{entry:.2f}"
    if 10 <= size < 1000:
        return f"{entry:.0f}"
    return f"{entry:.0e}"


def _label_axes(ax: Axes, matrix: np.ndarray, rows: Sequence[str] | None, columns: Sequence[str] | None) -> None:
    height, width = matrix.shape
    for names, count, set_ticks in ((rows, height, ax.set_yticks), (columns, width, ax.set_xticks)):
        if names is not None and count <= MOST_TICK_LABELS:
            set_ticks(range(count), [str(name) for name in names])
        elif count <= 12:
            set_ticks(range(count))
    room = ax.get_figure().get_figwidth() * ax.get_position().width / max(1, width)  # type: ignore[union-attr]
    if columns is not None and width <= MOST_TICK_LABELS and max(len(str(name)) for name in columns) * 0.1 > room:
        plt.setp(ax.get_xticklabels(), rotation=45, ha="right", rotation_mode="anchor")
    ax.tick_params(length=0)
    if rows is not None or columns is not None:
        ax.set(xlabel="key", ylabel="query")


def _map_size(matrix: np.ndarray, columns: Sequence[str] | None) -> tuple[float, float]:
    height, width = matrix.shape
    inches = min(WIDTH, max(2.6, 0.62 * width + 1.2))
    extra = 0.5 if columns is not None else 0.0
    row = 0.46 if _readable(matrix) else 0.34  # without numbers in them, rows may be lower
    return inches, min(7.0, max(1.5, row * height + 0.9 + extra))


def _map_height(matrix: np.ndarray, inches: float) -> float:
    height, width = matrix.shape
    return min(5.0, max(1.7, inches * height / max(1, width) + 0.7))


def _frame_differences(ax: Axes, first: np.ndarray, second: np.ndarray) -> None:
    """An orange frame around each entry of the first that is not the second's; none where all or none differ."""
    wrong = ~np.isclose(first, second, rtol=1e-3, atol=1e-5, equal_nan=True)
    if wrong.all() or not wrong.any() or max(wrong.shape) > MOST_ROWS_WRITTEN:
        return
    for i, j in np.argwhere(wrong):
        ax.add_patch(Rectangle((j - 0.46, i - 0.46), 0.92, 0.92, fill=False, edgecolor=ORANGE, linewidth=2))


def _box(ax: Axes, x: float, y: float, text: str, colour: str) -> None:
    half = 0.82
    ax.add_patch(
        FancyBboxPatch((x - half, y - 0.27), 2 * half, 0.54, boxstyle="round,pad=0.06", facecolor=colour, linewidth=0)
    )
    ax.text(x, y, text, ha="center", va="center", fontsize=10)


def _arrow(ax: Axes, start: tuple[float, float], end: tuple[float, float], line: float, colour: str) -> None:
    ax.add_patch(
        FancyArrowPatch(
            start, end, arrowstyle="-", linewidth=line, color=colour, alpha=0.55, capstyle="round", shrinkA=0, shrinkB=0
        )
    )
