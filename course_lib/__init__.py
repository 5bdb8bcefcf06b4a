"""The course's model library: the Transformer as linear algebra, one concept per file.

Rows are vectors (``x @ W``) and boolean masks say True = may attend. Letters of shapes: ``B`` batch, ``N`` queries,
``M`` keys, ``h`` heads, ``d_model``, ``d_k``, ``d_v``, ``d_ff``, ``V`` vocabulary. Nothing is imported here, so that
``import course_lib`` costs nothing: write ``from course_lib.attention import softmax``. Concept, file and names::

    x Wᵀ + b, the product in every layer         linear                 linear, Linear
    look-up one_hot(token) W_E; logits           embedding              TokenEmbedding, AudioEmbedding
    RNN h_t = tanh(x_t W_X + h_{t−1} W_H + b)    recurrent              rnn_step, RNN
    LSTM c_t = σ(f) ∘ c_{t−1} + σ(i) ∘ tanh(g)   recurrent              lstm_step, LSTM
    softmax exp(sᵢ) / Σⱼ exp(sⱼ)                 attention              softmax
    scaled dot product softmax(q kᵀ / √d_k) v    attention              scaled_dot_product_attention
    multi-head Concat(head_1 … head_h) W_O, GQA  attention              MultiHeadAttention, BACKENDS
    sinusoidal sin(ω_i pos), cos(ω_i pos)        positions              sinusoidal_positions, angular_frequencies
    M_k with P[pos] M_k = P[pos + k]             positions              shift_matrix
    RoPE, rotary positions                       positions              rotary_angles, rope_interleaved, rope_half_split
    learned positions; T5's bias                 positions              LearnedPositions, RelativeBias, relative_bucket
    feed-forward φ(x W_1 + b_1) W_2 + b_2        feedforward            FeedForward, ACTIVATIONS
    SwiGLU (SiLU(x W_gate) ∘ x W_up) W_down      feedforward            SwiGLU, GatedFeedForward
    LayerNorm (x − μ) / √(σ² + ε) · γ + β        norms                  layer_norm, LayerNorm
    RMSNorm x / √(mean(x²) + ε) · γ              norms                  rms_norm, RMSNorm
    BatchNorm, μ and σ² over the batch           norms                  batch_norm, BatchNorm
    DyT γ · tanh(α x) + β                        norms                  dynamic_tanh, DyT
    causal mask, 0 for j ≤ i, −∞ for j > i       masks                  causal_mask, sliding_window_mask
    padding masks, masks together                masks                  padding_mask, length_mask, combine_masks
    residual, Add & Norm: norm(x + sublayer(x))  layers                 EncoderLayer
    cross-attention: q of x, k and v of memory   layers                 DecoderLayer
    stacks of layers                             stacks                 Encoder, Decoder
    options; the published models                config                 TransformerConfig, PRESETS
    Transformer of 2017, T5, Whisper             transformer            Transformer
    shapes and parameters of a model             summary                count_parameters, describe
    picture of a model, to click on              explorer               explore
    warm-up, label smoothing                     training               warmup_schedule, label_smoothing_loss
    training loop                                training               train, Settings
    checkpoints, logs, several processes         runs                   save, resume, progress, join_processes
    tasks to train on                            tasks                  dates, number_words, digits, time_series
    FlashAttention, tiling, online softmax       flash.tiled            tiled_attention, flash_forward, flash_backward
    the same on a GPU                            flash.triton_kernel    triton_attention
    KV cache                                     cache                  LayerCache, KVCache
    generation, greedy or drawn                  generation             generate, greedy, sampler
    top-k, top-p                                 generation             keep_top_k, keep_top_p
    beam search                                  beam                   beam_search
    decoder-only: GPT, Llama                     language_model         LanguageModel
    encoder-only: BERT                           masked_language_model  TextEncoder, MaskedLanguageModel
    pretrained BERT, MiniLM                      pretrained.bert        load_bert, load_minilm, sentence_vectors
    pretrained GPT-2                             pretrained.gpt2        load_gpt2
    pretrained Llama                             pretrained.llama       load_llama
    pretrained T5                                pretrained.t5          load_t5
    pretrained Whisper                           pretrained.whisper     load_whisper
    reading of checkpoints                       pretrained.checkpoint  read_config, read_tensors, fill
    sliding window (sparse attention)            beyond                 sliding_window_attention
    linear attention φ(Q) (φ(K)ᵀ V)              beyond                 linear_attention, linear_attention_step
    state space h_t = a ∘ h_{t−1} + b x_t        beyond                 state_space_scan, state_space_convolution
    ViT, images as patches                       vision                 patchify, PatchEmbedding, VisionTransformer
    pictures                                     plots                  heat_map, curves, bars, clocks

Exercises of the lessons, not here: 00 ``row_combination``; 01 ``gradient_through_time``; 03 ``dot_product_variance``,
``softmax_jacobian``, ``entropy``; 04 ``attention_flops`` and the rank of heads; 05 ``relative_score``; 08
``parameter_count``; 09 ``attention_bytes``, ``hbm_traffic``; 10 ``cache_bytes``, ``decode_flops``; 11 ``mask_tokens``.
"""
