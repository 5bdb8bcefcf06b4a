"""Pictures of the course: attention heat maps, curves, bars, a soft look-up, and a control with sliders.

All of them share one style: colours that colour-blind readers can tell apart (Okabe and Ito's palette for
categories, one rising lightness for weights), and a second sign beside the colour wherever curves meet (line
style, marker, number in the cell). Labels are short and English: a machine may have no Chinese font.

Every function takes torch tensors, numpy arrays or nested lists, and draws on a figure about 6.4 inches wide.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import cycle
from time import perf_counter
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
    _draw_matrix(ax, matrix, _norm([matrix]), written, _come_whole(weights))
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
    count = len(labels) * len(series)
    write, size = count <= 16, 9 if count <= 12 else 8
    hatches = ("", "//", "..", "xx", "\\\\", "--", "++")
    for i, ((name, numbers), colour, hatch) in enumerate(zip(series.items(), cycle(PALETTE), cycle(hatches))):
        shift = (i - (len(series) - 1) / 2) * width
        drawn = ax.bar(
            places + shift, _as_array(numbers), 0.92 * width, color=colour, hatch=hatch, edgecolor="white", label=name
        )
        if write:
            ax.bar_label(drawn, fmt=_whole if _come_whole(numbers) else _number, padding=2, fontsize=size)
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


def loss_surfaces(places: Sequence[float], surfaces: dict[str, Any]) -> Figure:
    """Draw loss surfaces side by side as contour maps with the same levels: how a valley looks from above.

    Args:
        places: steps along either direction, ``n`` of them; both axes share them.
        surfaces: name → ``[n, n]`` losses; entry (i, j) belongs to step i up and step j across.

    Returns:
        The figure.
    """
    use_style()
    steps = _as_array(places)
    maps = {name: _as_matrix(losses) for name, losses in surfaces.items()}
    top = max(float(matrix[np.isfinite(matrix)].max()) for matrix in maps.values())
    levels = mpl.ticker.MaxNLocator(16).tick_values(0, top)
    figure, axes = plt.subplots(1, len(maps), figsize=(WIDTH, WIDTH / len(maps) + 0.3), squeeze=False, sharey=True)
    for ax, (name, matrix) in zip(axes.flat, maps.items()):
        drawn = ax.contourf(steps, steps, matrix, levels=levels, cmap=f"{SEQUENTIAL}_r")
        ax.contour(steps, steps, matrix, levels=levels, colors=BLACK, linewidths=0.5, alpha=0.6)
        ax.plot(0, 0, marker="+", color=ORANGE, markersize=11, markeredgewidth=2)
        ax.set(title=name, xlabel="direction 1", aspect="equal", xticks=[steps[0], 0, steps[-1]])
    axes.flat[0].set_ylabel("direction 2")
    figure.colorbar(drawn, ax=list(axes.flat), shrink=0.8, pad=0.02, label="loss")
    return figure


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


def product_two_ways(A: Any, B: Any, row: int, column: int) -> Figure:
    """Draw C = AB twice: one entry as row times column, and one row as a combination of the rows of B.

    Equal colours meet: above, entry k of the row and entry k of the column; below, entry k of the row as the weight
    of row k of B.

    Args:
        A: ``[n, p]``, small.
        B: ``[p, m]``, small.
        row: the row of A, counted from 0.
        column: the column of B.

    Returns:
        The figure.
    """
    use_style()
    first, second = _as_array(A), _as_array(B)
    product = first @ second
    weights, partners = first[row], second[:, column]
    n, p, m = *first.shape, second.shape[1]
    figure = plt.figure(figsize=(WIDTH, 0.9 * max(n, p) + 2.6))
    above, below = figure.subfigures(2, 1)  # type: ignore[misc]
    products = " + ".join(f"{_factor(a)}·{_factor(b)}" for a, b in zip(weights, partners))
    above.suptitle(f"row {row} of A · column {column} of B = {products} = {_by_hand(product[row, column])}")
    rows = " + ".join(f"{_factor(a)}·row {k}" for k, a in enumerate(weights))
    below.suptitle(f"row {row} of C = {rows} of B")
    for half, entry_only in ((above, True), (below, False)):
        axes = half.subplots(1, 3, width_ratios=(p, m, m))
        for ax, matrix, name in zip(axes, (first, second, product), ("A", "B", "C = AB")):
            ax.imshow(np.zeros_like(matrix), cmap=SEQUENTIAL, vmin=0, vmax=1, aspect="equal")
            for i, j in np.ndindex(matrix.shape):
                ax.text(j, i, _by_hand(matrix[i, j]), ha="center", va="center")
            ax.set(title=name, xticks=range(matrix.shape[1]), yticks=range(matrix.shape[0]))
            ax.tick_params(length=0)
            ax.spines[:].set_visible(False)
        for k, colour in zip(range(p), cycle(PALETTE)):
            _frame(axes[0], k, row, 1, colour)
            if entry_only:
                _frame(axes[1], column, k, 1, colour)
            else:
                _frame(axes[1], 0, k, m, colour)
        _frame(axes[2], column if entry_only else 0, row, 1 if entry_only else m, BLACK)
    return figure


def clocks(vectors: Any, rows: Sequence[str] | None = None, columns: Sequence[str] | None = None) -> Figure:
    """Draw vectors as rows of clocks: each pair of coordinates (x, y) is a hand that starts at twelve for (0, 1).

    Args:
        vectors: one vector of even length ``d``, or ``n`` of them, ``[n, d]``: each becomes a row of ``d/2`` clocks.
        rows: ``n`` names, written to the left.
        columns: ``d/2`` names, written above.

    Returns:
        The figure; the last line of each of its axes is the hand.
    """
    use_style()
    matrix = _as_matrix(vectors)
    count, wide = matrix.shape[0], matrix.shape[1] // 2
    side = min(1.0, (WIDTH - 0.7) / wide)
    figure, axes = plt.subplots(count, wide, figsize=(0.7 + side * wide, 0.35 + side * count), squeeze=False)
    reach = max(1.0, float(np.hypot(matrix[:, 0::2], matrix[:, 1::2]).max()))
    around = np.linspace(0, 2 * np.pi, 73)
    for (i, j), ax in np.ndenumerate(axes):
        x, y = matrix[i, 2 * j], matrix[i, 2 * j + 1]
        ax.plot(reach * np.sin(around), reach * np.cos(around), color="#999999", linewidth=1)
        ax.plot([0, 0], [0.86 * reach, reach], color="#999999", linewidth=1)  # twelve o'clock
        ax.plot([0, x], [0, y], color=PALETTE[j % len(PALETTE)], linewidth=2.5, solid_capstyle="round")
        ax.set(xlim=(-1.1 * reach, 1.1 * reach), ylim=(-1.1 * reach, 1.1 * reach), aspect="equal", xticks=[], yticks=[])
        for side_of_frame in ax.spines.values():
            side_of_frame.set_visible(False)
        if columns is not None and i == 0:
            ax.set_title(columns[j], fontsize=10)
        if rows is not None and j == 0:
            ax.set_ylabel(rows[i], rotation=0, ha="right", va="center")
    return figure


def live_curve(total: int, ylabel: str, title: str = "", seconds: float = 2.0) -> Callable[[int, float], None]:
    """A curve that grows while something runs, under a progress bar.

    In a notebook the picture is drawn anew every few seconds, and once more at the last step; elsewhere nothing is
    shown.

    Args:
        total: number of steps that will be reported.
        ylabel: label of the vertical axis, which is logarithmic.
        title: title above the picture.
        seconds: time between two pictures.

    Returns:
        A function to call with the number of each step, counted from 1, and its value.

    Example:
        >>> report = live_curve(total=2, ylabel="loss")
        >>> report(1, 0.5)
    """
    use_style()
    figure, (bar, ax) = plt.subplots(2, 1, figsize=(WIDTH, 3.8), height_ratios=(1, 12))
    plt.close(figure)  # it is shown below, not once more at the end of the cell
    numbers: list[float] = []
    start = last = perf_counter()
    shown: Any = None

    def draw(step: int) -> None:
        nonlocal shown
        bar.clear()
        bar.barh(0, total, color="#E5E5E5")
        bar.barh(0, step, color=GREEN)
        bar.set(xlim=(0, total), ylim=(-0.4, 0.4))
        bar.axis("off")
        bar.set_title(f"{title}  " * bool(title) + f"step {step} of {total}, {perf_counter() - start:.0f} s")
        ax.clear()
        ax.plot(range(1, len(numbers) + 1), numbers, color=BLUE, linewidth=1.2)
        ax.set(xlabel="step", ylabel=ylabel, yscale="log", xlim=(0, total))
        ax.grid(True, which="both")
        if _in_notebook():
            from IPython.display import display

            if shown is None:
                shown = display(figure, display_id=True)  # type: ignore[no-untyped-call,unused-ignore]
            else:
                shown.update(figure)

    def report(step: int, value: float) -> None:
        nonlocal last
        numbers.append(value)
        if step == total or perf_counter() - last > seconds:
            draw(step)
            last = perf_counter()

    return report


def ticking_clocks(frequencies: Sequence[float], seconds: float = 0.5, start: int = 5) -> Any:
    """A small moving picture: one clock for each angular frequency, all running at once.

    It is an SVG that moves by itself, so it also runs in a saved page; where nothing can move it shows the hands at
    `start`.

    Args:
        frequencies: radians a step, all positive.
        seconds: the time that one step takes.
        start: the position at which the hands set out.

    Returns:
        An `IPython.display.SVG`.
    """
    from IPython.display import SVG

    dials = []
    for i, (omega, colour) in enumerate(zip(_as_array(frequencies), cycle(PALETTE))):
        degrees = float(np.degrees(omega * start)) % 360
        turn = 2 * np.pi / omega * seconds
        dials.append(
            f'<g transform="translate({60 + 110 * i} 65)" stroke-linecap="round">'
            f'<circle r="48" fill="white" stroke="#999999"/><line y1="-42" y2="-48" stroke="#999999"/>'
            f'<line y2="-44" stroke="{colour}" stroke-width="4" transform="rotate({degrees:.2f})">'
            f'<animateTransform attributeName="transform" type="rotate" from="{degrees:.2f}" to="{degrees + 360:.2f}" '
            f'dur="{turn:.2f}s" repeatCount="indefinite"/></line>'
            f'<text y="68" text-anchor="middle" font-family="sans-serif" font-size="13">{omega:.3g}</text></g>'
        )
    width = 10 + 110 * len(dials)
    return SVG(f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="140">{"".join(dials)}</svg>')  # type: ignore[no-untyped-call,unused-ignore]


def walking_tiles(rows: int, columns: int, causal: bool = False, seconds: float = 0.6) -> Any:
    """A small moving picture: how tiled attention walks over the score matrix, one tile at a time.

    It is an SVG that moves by itself, so it also runs in a saved page; where nothing can move it shows one moment.

    Args:
        rows: blocks of queries.
        columns: blocks of keys.
        causal: leave out the tiles that lie in the future (aligned at the bottom right).
        seconds: the time that one tile takes.

    Returns:
        An `IPython.display.SVG`.
    """
    from IPython.display import SVG

    steps = [(i, j) for i in range(rows) for j in range(columns) if not causal or j - i <= columns - rows]
    still = len(steps) // 2 + 1
    moments = [*steps, (rows, -1), (rows, -1)]  # at the end everything rests for two beats

    def box(x: float, y: float, w: float, h: float, colours: Sequence[str], text: str = "") -> str:
        moves = (
            f'<animate attributeName="fill" values="{";".join(colours)}" calcMode="discrete" '
            f'dur="{len(moments) * seconds:.2f}s" repeatCount="indefinite"/>'
            if len(set(colours)) > 1
            else ""
        )
        label = f'<text x="{x + w / 2}" y="{y + h / 2 + 5}">{text}</text>' if text else ""
        frame = f'stroke="#777777" fill="{colours[still % len(colours)]}"'
        return f'<rect x="{x}" y="{y}" width="{w}" height="{h}" {frame}>{moves}</rect>{label}'

    side, left, top = 46, 86, 66
    drawn: list[str] = []
    for j in range(columns):
        drawn.append(
            box(left + side * j, 28, side - 4, 26, [SKY if at == j else "white" for _, at in moments], f"{j + 1}")
        )
    for i in range(rows):
        y = top + side * i
        here = [at for at, _ in moments]
        drawn.append(box(40, y, 34, side - 4, [SKY if at == i else "white" for at in here], f"{i + 1}"))
        drawn.append(
            box(
                left + side * columns + 10, y, 34, side - 4,
                ["white" if at < i else AMBER if at == i else GREEN for at in here], f"{i + 1}",
            )
        )  # fmt: skip
        for j in range(columns):
            colours = [ORANGE if at == (i, j) else "white" for at in moments]
            drawn.append(box(left + side * j, y, side - 4, side - 4, colours if (i, j) in steps else ["#DDDDDD"]))
    middle = left + side * columns / 2
    for x, under, text in (
        (middle, 20, "K, V"), (20, top + side * rows / 2, "Q"), (left + side * columns + 27, 54, "O"),
        (middle, top + side * rows + 18, "S, P: one tile at a time"),
    ):  # fmt: skip
        drawn.append(f'<text x="{x}" y="{under}">{text}</text>')
    width, height = left + side * columns + 60, top + side * rows + 30
    return SVG(  # type: ignore[no-untyped-call,unused-ignore]
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" text-anchor="middle" role="img" '
        f'aria-label="{len(steps)} tiles of the score matrix, visited one after the other" '
        f'font-family="sans-serif" font-size="14">{"".join(drawn)}</svg>'
    )


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


def _in_notebook() -> bool:
    try:
        from IPython import get_ipython
    except ImportError:
        return False
    return getattr(get_ipython(), "kernel", None) is not None  # type: ignore[no-untyped-call,unused-ignore]


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


def _draw_matrix(ax: Axes, matrix: np.ndarray, norm: Normalize, write: bool, whole: bool = False) -> None:
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
        text = _whole(entry) if whole else _number(entry, largest)
        ax.text(j, i, text, ha="center", va="center", fontsize=size, color="white" if dark else "black")


def _come_whole(numbers: Any) -> bool:
    """Whether they are counts or a mask: a tensor of int or bool, or a list of int."""
    if isinstance(numbers, torch.Tensor):
        return not numbers.is_floating_point()
    return isinstance(numbers, list | tuple) and all(isinstance(entry, int) for entry in numbers)


def _whole(entry: float) -> str:
    """8, 120, 1e+04."""
    return f"{entry:.0f}" if abs(entry) < 1000 else _number(entry)


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
    visible = 1e-3 * np.abs(second[np.isfinite(second)]).max(initial=0.0)
    wrong = ~np.isclose(first, second, rtol=1e-3, atol=visible, equal_nan=True)
    if wrong.all() or not wrong.any() or max(wrong.shape) > MOST_ROWS_WRITTEN:
        return
    for i, j in np.argwhere(wrong):
        ax.add_patch(Rectangle((j - 0.46, i - 0.46), 0.92, 0.92, fill=False, edgecolor=ORANGE, linewidth=2))


def _by_hand(entry: float) -> str:
    """A number of a small example as one writes it by hand: 2, 0.5, −1."""
    return f"{entry:.3g}".replace("-", "−")


def _factor(entry: float) -> str:
    """The same inside a product: a negative number stands in brackets."""
    return f"({_by_hand(entry)})" if entry < 0 else _by_hand(entry)


def _frame(ax: Axes, x: int, y: int, width: int, colour: str) -> None:
    """A frame around `width` cells of row `y`, from column `x` on, tinted in its colour."""
    for face, alpha in ((colour, 0.18), ("none", 1.0)):
        ax.add_patch(
            Rectangle(
                (x - 0.45, y - 0.45), width - 0.1, 0.9, facecolor=face, edgecolor=colour, linewidth=2, alpha=alpha
            )
        )


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
