"""What honest answers are made of: the names that students of these lessons write, gathered from all lessons and right answers.

Whatever is not here is listed for the instructor (unusual.py), so a word belongs here only if nothing that it stands for,
in any package, calls a student's function out of torch's sight, runs a text, reaches a frame, a module or a file to write to,
starts a thread, or answers an exercise by itself.
"""

import builtins

from autograder.syntax import words

# Attributes of whatever object; of modules those of COMPUTING and DRAWING.
USUAL_NAMES = words(
    """
    shape size ndim dim numel dtype device itemsize nbytes element_size T mT H mH real imag data grad is_leaf requires_grad
    requires_grad_ is_contiguous is_floating_point is_complex contiguous stride storage_offset layout name names

    float double half long int short bool bfloat16 type_as to cpu cuda clone detach detach_ item copy copy_ tolist numpy
    astype float16 float32 float64 int8 int16 int32 int64 uint8 complex64 complex128 bool_ newaxis inf nan pi e tau eps tiny
    finfo iinfo promote_types result_type get_default_dtype set_default_dtype set_printoptions printoptions errstate

    tensor as_tensor from_numpy array asarray zeros ones empty full zeros_like ones_like range empty_like full_like new_zeros
    new_ones new_empty new_full new_tensor arange linspace logspace eye identity tri rand randn randint randperm rand_like
    randn_like randint_like normal uniform normal_ uniform_ zero_ fill_ manual_seed seed Generator generator default_rng
    random choice choices shuffle permutation sample integers standard_normal bernoulli multinomial RandomState get_state
    trunc_normal_ xavier_normal_ xavier_uniform_ kaiming_normal_ kaiming_uniform_ constant_ ones_ zeros_ orthogonal_ init
    get_rng_state set_rng_state initial_seed meshgrid tril triu tril_indices triu_indices diag diagonal diag_embed block_diag
    complex polar view_as_complex view_as_real angle conj

    reshape reshape_as view view_as flatten ravel unflatten squeeze unsqueeze squeeze_ unsqueeze_ expand expand_dims
    expand_as broadcast_to broadcast_tensors broadcast_arrays broadcast_shapes repeat repeat_interleave tile permute
    transpose transpose_ swapaxes swapdims movedim moveaxis t flip fliplr flipud roll rot90 cat concat concatenate stack
    hstack vstack dstack column_stack split split_with_sizes chunk tensor_split array_split unbind narrow select unfold
    as_strided atleast_1d atleast_2d atleast_3d pad cartesian_prod rearrange

    gather scatter scatter_ scatter_add scatter_add_ index_select index_fill index_fill_ index_add index_add_ index_copy
    index_copy_ take take_along_dim take_along_axis put_along_axis masked_fill masked_fill_ masked_select where nonzero
    argwhere argmax argmin argsort sort topk kthvalue searchsorted bucketize unique unique_consecutive bincount histogram
    isin digitize

    add sub mul div add_ sub_ mul_ div_ neg negative abs absolute sign pow power square sqrt rsqrt reciprocal exp exp2 expm1
    log log2 log10 log1p sin cos tan asin acos atan atan2 arctan2 arcsin arccos arctan sinh cosh tanh floor ceil round trunc
    frac remainder fmod mod divide multiply subtract true_divide floor_divide float_power clamp clamp_ clamp_min clamp_max
    clip maximum minimum fmax fmin lerp addcmul addcdiv sigmoid logit logaddexp xlogy erf erfinv ndtr nan_to_num
    nan_to_num_ deg2rad rad2deg degrees radians hypot sigmoid_ exp_ sqrt_ relu_ tanh_ pow_ log_ neg_ abs_ floor_
    eq ne lt le gt ge equal allclose isclose array_equal isnan isinf isfinite isneginf isposinf logical_and logical_or
    logical_not logical_xor bitwise_and bitwise_or bitwise_not bitwise_xor

    sum mean std var var_mean std_mean min max amin amax aminmax prod all any cumsum cumprod cummax cummin logsumexp
    logcumsumexp norm vector_norm matrix_norm median quantile percentile mode nansum nanmean count_nonzero
    diff average ptp trapezoid gradient std_ trace

    matmul mm mv bmm dot vdot inner outer ger addmm addmv addr addbmm baddbmm einsum tensordot vecdot multi_dot linear cross
    linalg matrix_rank matrix_power matrix_exp eig eigh eigvals eigvalsh svd svdvals qr det slogdet lstsq


    nn Module ModuleList ModuleDict Sequential Parameter ParameterList Identity Flatten Linear Embedding LayerNorm RMSNorm
    BatchNorm1d Dropout ReLU GELU SiLU Tanh Sigmoid Softmax LeakyReLU ELU Softplus CrossEntropyLoss MSELoss L1Loss
    BCEWithLogitsLoss LSTM RNN
    functional relu gelu silu elu selu mish leaky_relu softplus softsign hardtanh logsigmoid softmax log_softmax dropout
    one_hot normalize cross_entropy nll_loss mse_loss l1_loss smooth_l1_loss binary_cross_entropy
    binary_cross_entropy_with_logits cosine_similarity layer_norm rms_norm batch_norm group_norm embedding pad_sequence
    forward backward parameters named_parameters buffers named_buffers modules named_modules children named_children
    train eval training zero_grad state_dict load_state_dict register_buffer register_parameter add_module get_parameter
    apply weight bias in_features out_features in_proj_weight in_proj_bias out_proj weight_ih_l0 weight_hh_l0 bias_ih_l0
    bias_hh_l0 num_embeddings embedding_dim normalized_shape elementwise_affine running_mean running_var
    save_for_backward saved_tensors needs_input_grad self_attn multihead_attn linear1 linear2 norm1 norm2 norm3 extra_repr

    autograd func no_grad enable_grad inference_mode set_grad_enabled is_grad_enabled vmap optim Adam AdamW SGD RMSprop
    Adagrad Optimizer step param_groups lr_scheduler LambdaLR StepLR CosineAnnealingLR ExponentialLR OneCycleLR get_last_lr
    clip_grad_norm_ clip_grad_value_ utils TensorDataset DataLoader Dataset IterableDataset Subset random_split
    is_available device_count get_device_name empty_cache synchronize memory_allocated max_memory_allocated
    reset_peak_memory_stats backends mps cudnn deterministic benchmark use_deterministic_algorithms set_num_threads
    get_num_threads set_default_device get_default_device is_tensor save load autocast testing assert_close
    assert_allclose assert_array_equal assert_array_almost_equal assert_almost_equal Tensor FloatTensor LongTensor
    BoolTensor ndarray Size special version flop_counter FlopCounterMode get_total_flops

    append extend insert pop remove index count reverse sort clear keys values items get update setdefault popitem union
    intersection difference issubset issuperset discard most_common elements total appendleft popleft extendleft rotate
    join strip lstrip rstrip startswith endswith lower upper title capitalize casefold swapcase center ljust rjust zfill
    find rfind replace splitlines rsplit partition rpartition removeprefix removesuffix isalpha isdigit isalnum isspace
    isupper islower isnumeric isidentifier encode decode translate maketrans format fromkeys is_integer bit_length hex
    as_integer_ratio real numerator denominator start stop args close group groups span match search findall finditer
    fullmatch sub subn

    sqrt fsum isqrt gcd lcm factorial comb perm fabs floor ceil copysign gamma lgamma dist prod

    read readline readlines read_text read_bytes exists is_file is_dir parent parents stem suffix iterdir home cwd expanduser
    resolve environ getenv path sep getcwd listdir makedirs mkdir cpu_count name version version_info platform maxsize
    float_info stdout stderr argv executable getsizeof basename dirname abspath write flush isatty exit

    reduce cache field fields asdict getvalue info debug warning warn error sleep DEBUG INFO WARNING ERROR

    plt plot scatter bar barh hist hist2d imshow matshow pcolormesh contour contourf fill_between errorbar stem step boxplot
    violinplot quiver axhline axvline axhspan axvspan hlines vlines text annotate legend figure subplot subplots add_subplot
    subplots_adjust tight_layout suptitle supxlabel supylabel xlabel ylabel xlim ylim xticks yticks xscale yscale grid show
    savefig clf cla gca gcf colorbar set_title set_xlabel set_ylabel set_xlim set_ylim set_xticks set_yticks
    set_xticklabels set_yticklabels set_xscale set_yscale set_aspect set_axis_off set_visible set_color set_label set_text
    set_clim set_size_inches set_zlabel set_zlim set_box_aspect set_facecolor get_xlim get_ylim get_legend get_color
    get_lines get_text get_figure tick_params ticklabel_format axis axes spines transData transAxes twinx twiny bar_label
    invert_yaxis invert_xaxis add_patch add_axes plot_surface view_init cmap cm viridis get_cmap rcParams style use flat fig
    ax canvas patches Rectangle heatmap lineplot scatterplot barplot set_theme semilogx semilogy loglog margins rc

    DataFrame Series Timestamp head tail describe columns loc iloc groupby merge agg sort_values reset_index set_index rename
    drop dropna fillna isna value_counts nunique to_numpy to_string read_csv corr pivot_table pivot melt date_range idxmax
    idxmin rolling to_datetime display HTML Markdown Image Latex Math SVG clear_output Video Audio YouTubeVideo open
    tqdm trange set_description set_postfix reset

    interact IntSlider FloatSlider widgets

    now today timedelta strftime isoformat total_seconds time Function xaxis yaxis set_major_locator set_major_formatter
    set_linewidth set_alpha set_label_position tick_top tick_bottom tick_left tick_right plot_wireframe transformer
    Path Random perf_counter thread_time process_time load_file set indices bits base sizes texts images rindex msg solution
    Q R entr fold jacobian jacrev jacfwd get_lines Line2D

    bos_id eos_id pad_id token_to_id id_to_token encode_batch preset w_q w_k w_v w_o W_Q W_K W_V W_O new_cache next_logits
    positions final_norm table train valid test steps max_norm norm_eps activation logits n_kv_heads d_ff d_k vocab_size

    drive files mount upload download flush_and_unmount colab userdata

    manual_seed_all from_iterable setLevel maxlen move_to_end retain_grad get_xticklabels setp FuncFormatter set_data to_jshtml
    corrcoef cov fit predict score coef_ fit_transform Conv2d MaxPool2d AdaptiveAvgPool2d avg_pool2d

    config cfg model loss losses optimizer scheduler key value scale mask pos block blocks block_size batch_size d_model
    n_heads n_layers head heads layer layers encoder decoder history label labels target targets id ids token tokens
    attention state states h c d patch position positions passed points message
    """
)
# What torch calls some of these inside.
USUAL_OPERATIONS = words(
    """
    slice alias rsub numpy_T matrix_H adjoint lift_fresh index_put_ is_nonzero resolve_conj resolve_neg set_ log_sigmoid
    __and__ __or__ __xor__ __iand__ __ior__ __ixor__ __lshift__ __rshift__ cross_entropy_loss nll_loss_nd _unique2 lstm
    rnn_tanh nonzero_numpy unique_dim conv2d max_pool2d adaptive_avg_pool2d im2col fill_diagonal_ _make_dual _unpack_dual
    fft_fft fft_ifft fft_rfft fft_irfft _has_compatible_shallow_copy_type _is_all_true
    """
)
# Of these modules every name of their own is usual: they compute, and nothing else.
USUAL_MODULES = words(
    """
    math cmath random itertools collections collections.abc statistics time datetime fractions decimal numbers bisect heapq
    pprint textwrap csv abc __future__ copy
    """
)
# Packages that compute and modules that draw: in these the usual names above are usual.
COMPUTING = words("torch numpy scipy pandas sklearn einops")
DRAWING = words(
    """
    matplotlib matplotlib.animation matplotlib.cm matplotlib.colors matplotlib.dates matplotlib.gridspec matplotlib.lines
    matplotlib.patches matplotlib.pyplot matplotlib.pyplot.cm matplotlib.pyplot.style matplotlib.style matplotlib.ticker
    matplotlib.figure matplotlib.axes matplotlib.font_manager matplotlib.collections
    mpl_toolkits mpl_toolkits.mplot3d mpl_toolkits.axes_grid1 seaborn plotly plotly.express plotly.graph_objects
    plotly.subplots
    """
)
# What a notebook takes from autograder.
NOTEBOOK_NAMES = words("check hint judge names progress start use")
# Of other modules these names, and of the ones above a few that mean something usual there only.
USUAL_IN_MODULE = {
    "asyncio": words("run sleep gather"),
    "autograder": NOTEBOOK_NAMES,
    "contextlib": words("contextmanager suppress nullcontext redirect_stdout"),
    "dataclasses": words("dataclass field asdict astuple replace"),
    "enum": words("Enum IntEnum StrEnum Flag IntFlag auto unique"),
    "functools": words("partial reduce wraps lru_cache cache cached_property total_ordering cmp_to_key"),
    "gc": words("collect"),
    "glob": words("glob"),
    "google.colab": words("drive files userdata"),
    "importlib": words("invalidate_caches"),
    "importlib.util": words("find_spec"),
    "inspect": words("signature getsource"),
    "io": words("StringIO BytesIO"),
    "IPython": words("display version_info"),
    "IPython.display": words(
        "display HTML Markdown Image Latex Math SVG clear_output Video Audio YouTubeVideo set_matplotlib_formats"
    ),
    "ipywidgets": words("interact IntSlider FloatSlider widgets"),
    "json": words("load loads dump dumps"),
    "logging": words("basicConfig getLogger info debug warning error INFO DEBUG WARNING ERROR"),
    "operator": words("itemgetter add sub mul truediv floordiv mod neg pow eq ne lt le gt ge"),
    "os": words("environ getenv path sep getcwd listdir makedirs mkdir cpu_count name"),
    "os.path": words("join exists basename dirname abspath isfile isdir splitext expanduser getsize sep"),
    "pathlib": words("Path"),
    "PIL": words("Image"),
    "PIL.Image": words("open new fromarray Image"),
    "platform": words("system python_version machine processor node platform"),
    "re": words("compile match search findall finditer fullmatch split sub subn escape"),
    "safetensors.torch": words("load_file"),
    "string": words("ascii_lowercase ascii_uppercase ascii_letters digits punctuation whitespace"),
    "sys": words("version version_info platform path maxsize float_info stdout stderr argv executable getsizeof exit"),
    "timeit": words("default_timer"),
    "tqdm": words("tqdm trange"),
    "tqdm.auto": words("tqdm trange"),
    "tqdm.notebook": words("tqdm trange"),
    "traceback": words("print_exc format_exc"),
    "types": words("SimpleNamespace"),
    "warnings": words("warn simplefilter filterwarnings catch_warnings"),
    "typing": words(
        """
        Any Callable Dict List Tuple Set Optional Union Iterable Iterator Sequence Mapping Literal NamedTuple TypeVar Generic
        Protocol Self Final ClassVar Annotated TypedDict Type Generator cast overload
        """
    ),
    "matplotlib.animation": words("FuncAnimation ArtistAnimation PillowWriter"),
    "matplotlib.colors": words(
        "ListedColormap LinearSegmentedColormap Normalize LogNorm TwoSlopeNorm BoundaryNorm SymLogNorm PowerNorm to_rgba to_rgb"
    ),
    "matplotlib.figure": words("Figure"),
    "matplotlib.axes": words("Axes"),
    "matplotlib.gridspec": words("GridSpec"),
    "matplotlib.patches": words(
        "Patch Circle Ellipse Polygon Arrow FancyArrow FancyArrowPatch FancyBboxPatch Wedge Arc"
    ),
    "matplotlib.pyplot": words(
        """
        Axes Figure Circle Normalize FuncFormatter MaxNLocator MultipleLocator GridSpec subplot_mosaic stackplot pie polar
        hexbin fill eventplot spy broken_barh streamplot tricontourf autoscale minorticks_on pause arrow box draw ion ioff
        delaxes sca figtext figlegend figimage clabel table subplot2grid rc_context rcdefaults getp get_fignums
        """
    ),
    "matplotlib.ticker": words(
        """
        MaxNLocator MultipleLocator FixedLocator FixedFormatter FuncFormatter FormatStrFormatter StrMethodFormatter
        PercentFormatter NullLocator NullFormatter LogLocator LogFormatter ScalarFormatter AutoMinorLocator EngFormatter
        """
    ),
    "mpl_toolkits.mplot3d": words("Axes3D"),
    "mpl_toolkits.axes_grid1": words("make_axes_locatable ImageGrid"),
    "plotly.express": words("line bar scatter imshow histogram scatter_3d line_3d"),
    "plotly.graph_objects": words("Figure Scatter Scatter3d Heatmap Bar Surface Layout"),
    "plotly.subplots": words("make_subplots"),
    "seaborn": words(
        "histplot kdeplot boxplot violinplot pairplot jointplot clustermap relplot displot catplot regplot color_palette"
        " set_style set_context set_palette despine load_dataset"
    ),
    "sklearn.datasets": words("load_iris load_digits make_blobs"),
    "sklearn.decomposition": words("PCA"),
    "sklearn.linear_model": words("LinearRegression LogisticRegression"),
    "sklearn.manifold": words("TSNE"),
    "sklearn.metrics": words("accuracy_score confusion_matrix"),
    "sklearn.model_selection": words("train_test_split"),
    "sklearn.preprocessing": words("StandardScaler"),
}
USUAL_IN_MODULE["typing_extensions"] = USUAL_IN_MODULE["typing"]
# What a lesson imports; of packages that hold more than a lesson needs, these modules alone.
LESSON_MODULES = (
    USUAL_MODULES
    | DRAWING
    | USUAL_IN_MODULE.keys()
    | words(
        """
    course_lib einops google PIL pandas safetensors
    torch torch.nn torch.nn.functional torch.nn.init torch.nn.modules torch.nn.parameter torch.nn.utils
    torch.nn.utils.rnn torch.autograd torch.autograd.functional torch.backends torch.cuda torch.distributions torch.fft
    torch.func torch.linalg torch.mps torch.optim torch.optim.lr_scheduler torch.profiler torch.random torch.special
    torch.testing torch.types torch.utils torch.utils.checkpoint torch.utils.data torch.utils.flop_counter
    torch.utils.tensorboard torch.version
    numpy numpy.fft numpy.linalg numpy.polynomial numpy.random numpy.testing numpy.typing numpy.version
    scipy scipy.constants scipy.fft scipy.integrate scipy.interpolate scipy.linalg scipy.optimize scipy.signal scipy.sparse
    scipy.spatial scipy.special scipy.stats
    sklearn sklearn.cluster sklearn.neighbors sklearn.pipeline
    """
    )
)
# Forbidden in some exercises, but what one's own experiments are made of: listed in answers only.
EVERYDAY = words(
    """
    matmul mm mv bmm dot vdot inner outer ger addmm addmv addr addbmm baddbmm einsum tensordot vecdot multi_dot linear
    numpy tolist autograd backward func functional Function grad __matmul__ __rmatmul__
    """
)
OF_NAMED_TUPLES = words("_asdict _replace _make")
USUAL_DUNDERS = words("__init__ __version__ __name__ __doc__ __file__ __post_init__ __all__ __main__")
# Python asks for these where a student's own class stands in an expression of the student's own.
USUAL_METHODS = USUAL_DUNDERS | words(
    """
    __call__ __repr__ __str__ __len__ __getitem__ __setitem__ __iter__ __next__ __contains__ __enter__ __exit__ __add__
    __sub__ __mul__ __truediv__ __neg__ __radd__ __rsub__ __rmul__ __pow__ __iadd__ __matmul__ __eq__ __hash__ __lt__
    """
)
USUAL_BUILTINS = (
    USUAL_DUNDERS
    | words(
        """
    abs all any ascii bin bool bytearray bytes callable chr classmethod complex dict dir divmod enumerate filter float format
    frozenset hasattr hash help hex id input int isinstance issubclass iter len list map max min next object oct ord pow print
    property range repr reversed round set slice sorted staticmethod str sum super tuple zip exit quit copyright credits
    license Ellipsis NotImplemented display
    """
    )
    | {name for name, thing in vars(builtins).items() if isinstance(thing, type) and issubclass(thing, BaseException)}
)
# Classes to build one's own upon, and what may stand above a method.
USUAL_BASES = words(
    """
    torch.nn.Module torch.nn.Sequential torch.nn.ModuleList torch.autograd.Function torch.utils.data.Dataset torch.utils.data.IterableDataset
    typing.NamedTuple typing.TypedDict typing.Protocol typing.Generic abc.ABC enum.Enum enum.IntEnum enum.StrEnum enum.Flag
    """
)
USUAL_DECORATORS = words(
    """
    property staticmethod classmethod setter getter abstractmethod dataclass cache lru_cache cached_property wraps no_grad
    inference_mode enable_grad contextmanager overload total_ordering unique
    """
)
