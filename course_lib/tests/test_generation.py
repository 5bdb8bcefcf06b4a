import math

import pytest
import torch

from course_lib.beam import beam_search
from course_lib.generation import generate, greedy, keep_top_k, keep_top_p, sampler
from course_lib.masks import padding_mask
from course_lib.tests.test_cache import TOKENS, make
from course_lib.transformer import LanguageModel, Transformer

PADDED = torch.tensor([[0, 0, 7, 9, 4], [5, 5, 8, 11, 6], [0, 2, 3, 6, 6]])


# which token


def test_top_k_keeps_the_k_largest():
    logits = torch.tensor([[1.0, 4.0, 2.0, 3.0], [5.0, 5.0, 5.0, 0.0]])
    assert keep_top_k(logits, 2).isfinite().tolist() == [[False, True, False, True], [True, True, True, False]]
    assert torch.equal(keep_top_k(logits, 9), logits)
    with pytest.raises(ValueError, match="top_k"):
        keep_top_k(logits, 0)


def test_top_p_keeps_the_fewest_that_reach_p():
    logits = torch.tensor([[0.1, 0.5, 0.15, 0.25], [0.25, 0.25, 0.25, 0.25]]).log()
    assert keep_top_p(logits, 0.5).isfinite().tolist()[0] == [False, True, False, False]
    assert keep_top_p(logits, 0.51).isfinite().tolist()[0] == [False, True, False, True]
    assert keep_top_p(logits, 0.6).isfinite().sum(-1).tolist() == [2, 3]
    assert keep_top_p(torch.zeros(4), 0.5).isfinite().sum() == 2  # two reach exactly 0.5: a third is not needed
    assert keep_top_p(logits, 1e-9).isfinite().sum(-1).tolist() == [1, 1]  # the likeliest is always there
    assert torch.equal(keep_top_p(logits, 1.0), logits)
    with pytest.raises(ValueError, match="top_p"):
        keep_top_p(logits, 0.0)


def test_sampler_draws_from_the_distribution():
    logits = torch.tensor([0.1, 0.5, 0.15, 0.25]).log().expand(20_000, 4)

    def shares(**options):
        drawn = sampler(generator=torch.Generator().manual_seed(0), **options)(logits)
        return drawn.bincount(minlength=4) / len(drawn)

    def expected(weights):
        return torch.tensor(weights) / sum(weights)

    close = {"atol": 0.015, "rtol": 0}
    torch.testing.assert_close(shares(), expected([0.1, 0.5, 0.15, 0.25]), **close)
    torch.testing.assert_close(shares(temperature=0.5), expected([0.01, 0.25, 0.0225, 0.0625]), **close)
    torch.testing.assert_close(shares(top_k=2), expected([0.0, 0.5, 0.0, 0.25]), **close)
    torch.testing.assert_close(shares(top_p=0.8), expected([0.0, 0.5, 0.15, 0.25]), **close)
    # the temperature comes first: at 0.5 the first token alone reaches 0.7
    torch.testing.assert_close(shares(temperature=0.5, top_p=0.7), expected([0.0, 1.0, 0.0, 0.0]), **close)
    assert torch.equal(sampler(temperature=1e-4)(logits), greedy(logits))
    with pytest.raises(ValueError, match="temperature"):
        sampler(temperature=0.0)


# cached = uncached


@pytest.mark.parametrize("positions", ["learned", "sinusoidal", "rotary", "relative"])
def test_generation_is_the_same_with_and_without_cache(positions, device):
    model, prompts = make(positions=positions, max_positions=30, device=device), PADDED.to(device)
    options = {"max_new_tokens": 9, "mask": padding_mask(prompts)}
    written = generate(model, prompts, **options)
    assert torch.equal(generate(model, prompts, cached=False, **options), written)
    assert torch.equal(written[:, :5], prompts) and written.shape == (3, 14)
    for row, n in zip(range(3), (2, 0, 1)):  # padding in the batch changes nothing
        alone = generate(model, prompts[row : row + 1, n:], 9)
        assert torch.equal(alone[0], written[row, n:])
    beams, scores = beam_search(model, prompts, n_beams=3, eos_id=8, **options)
    uncached = beam_search(model, prompts, n_beams=3, eos_id=8, cached=False, **options)
    assert torch.equal(uncached[0], beams)
    torch.testing.assert_close(uncached[1], scores)


def test_encoder_decoder_is_the_same_with_and_without_cache():
    model, start = make(Transformer, max_positions=30), torch.ones(2, 1, dtype=torch.long)
    source = TOKENS.clone()
    source[1, 4:] = 0
    options = {"source": source, "source_mask": padding_mask(source), "eos_id": 8}
    written = generate(model, start, 9, **options)
    assert torch.equal(generate(model, start, 9, cached=False, **options), written)
    alone = generate(model, start[1:], 9, source=source[1:, :4], eos_id=8)
    assert torch.equal(alone[0], written[1, : alone.shape[1]])
    beams, _ = beam_search(model, start, 9, n_beams=3, **options)
    assert torch.equal(beam_search(model, start, 9, n_beams=3, cached=False, **options)[0], beams)


def test_after_the_end_comes_padding():
    model = make(max_positions=30)
    free = generate(model, PADDED, 9, mask=padding_mask(PADDED))
    end = int(free[1, 7])  # as if the token that sequence 1 writes third were the end
    written = generate(model, PADDED, 9, mask=padding_mask(PADDED), eos_id=end, pad_id=29)
    for row in range(3):
        tail = free[row, 5:].tolist()
        tail = tail[: tail.index(end) + 1] if end in tail else tail
        assert written[row, 5:].tolist() == tail + [29] * (written.shape[1] - 5 - len(tail))
    alone = generate(model, PADDED[1:2], 9, eos_id=end)
    assert alone.shape[1] <= 8 and int(alone[0, -1]) == end  # nothing is computed after the last end


# beam search against all sequences


def all_sequences(model, prompt, length):
    """Σ log p of every continuation of the prompt."""
    vocabulary = model.config.vocab_size
    grid = torch.cartesian_prod(*[torch.arange(vocabulary)] * length).reshape(-1, length)
    whole = torch.cat((prompt.expand(len(grid), -1), grid), 1)
    log_p = model(whole)[0].log_softmax(-1)[:, prompt.shape[1] - 1 : -1]
    return grid, log_p.gather(-1, grid[:, :, None]).sum((1, 2))


@pytest.mark.parametrize("penalty", [0.0, 1.0, 2.0])
def test_wide_beam_finds_the_best_of_all(penalty):
    """With a beam for every prefix the search is exhaustive: compare with all 5³ sequences, cut at their end."""
    model, prompt, end = make(vocab_size=5), torch.tensor([[4, 1]]), 3
    grid, totals = all_sequences(model, prompt, 3)
    best = -math.inf
    for n in (1, 2, 3):
        prefix, total = all_sequences(model, prompt, n)
        ended = (prefix[:, :-1] != end).all(1) & ((prefix[:, -1] == end) | (n == 3))
        scores = (total / n**penalty).masked_fill(~ended, -math.inf)
        if scores.max() > best:
            best, winner = scores.max().item(), prefix[scores.argmax()].tolist()
    sequences, scores = beam_search(model, prompt, 3, n_beams=100, length_penalty=penalty, eos_id=end)
    assert sequences[0, 2:].tolist() == winner
    assert scores.item() == pytest.approx(best, abs=1e-5)
    assert len(grid) == 125 and totals.exp().sum().item() == pytest.approx(1)


def test_one_beam_is_greedy():
    model = make(max_positions=30)
    beams, scores = beam_search(model, TOKENS, 5, n_beams=1)
    written = generate(model, TOKENS, 5)
    assert torch.equal(beams, written)
    log_p = model(written)[0].log_softmax(-1)[:, 6:-1].gather(-1, written[:, 7:, None])[..., 0]
    torch.testing.assert_close(scores, log_p.mean(1).float())


def test_what_cannot_be_done_is_said():
    model = make()
    with pytest.raises(ValueError, match="pad on the left"):
        generate(model, PADDED.flip(1), 2, mask=padding_mask(PADDED.flip(1)))
    with pytest.raises(ValueError, match="needs a source"):
        generate(make(Transformer), PADDED, 2)
    with pytest.raises(ValueError, match="has none"):
        generate(model, PADDED, 2, source=PADDED)
    with pytest.raises(ValueError, match="12 positions"):
        generate(model, PADDED, 9)
    with pytest.raises(ValueError, match="n_beams"):
        beam_search(model, PADDED, 2, n_beams=0)


# the same tokens as transformers

FAMILIES = ("gpt2", "llama", "t5", "whisper")
PAD = 2  # what follows the end; their beam search takes the end token in its place if it is 0


@pytest.fixture(scope="module", params=FAMILIES)
def pair(request, tmp_path_factory):
    """Our model and theirs with the same weights, small enough that the likeliest token is not always the same one."""
    pytest.importorskip("transformers")
    from course_lib.tests.pretrained.families import tiny
    from course_lib.tests.pretrained.test_families import LOAD, SOUND

    directory = tmp_path_factory.mktemp(request.param)
    changes = {
        "whisper": {"decoder_start_token_id": 1, "begin_suppress_tokens": None},
        "t5": {"num_layers": 3},  # theirs makes one cache for each *encoder* layer
    }.get(request.param, {})
    theirs = tiny(request.param, std=0.4, **changes)
    with torch.no_grad():  # random biases and γ make one token win everywhere
        for name, parameter in theirs.named_parameters():
            if parameter.dim() == 1:
                parameter.fill_(0.0 if name.endswith("bias") else 1.0)
    theirs.save_pretrained(directory)
    ours = LOAD[request.param](directory, backend="fused")
    mask = (PADDED != 0).long()
    if isinstance(ours, LanguageModel):
        return (
            ours,
            theirs,
            {"tokens": PADDED, "mask": padding_mask(PADDED)},
            {"input_ids": PADDED, "attention_mask": mask},
        )
    start = torch.full((3, 1), theirs.config.decoder_start_token_id)
    if request.param == "t5":
        inputs = {"tokens": start, "source": PADDED, "source_mask": padding_mask(PADDED)}
        return ours, theirs, inputs, {"input_ids": PADDED, "attention_mask": mask, "decoder_input_ids": start}
    sound = SOUND.float()
    return ours, theirs, {"tokens": start, "source": sound}, {"input_features": sound, "decoder_input_ids": start}


def their_tokens(theirs, inputs, **options):
    from transformers import GenerationMixin

    torch.manual_seed(5)
    # Whisper has a generate of its own around this one, which cuts long sound into windows
    return GenerationMixin.generate(theirs, **inputs, max_new_tokens=12, pad_token_id=PAD, **options)


def ends(ours, inputs):
    """No end token, and two that come up: those that the first and the last sequence write third."""
    written = generate(ours, **inputs, max_new_tokens=12)[:, -12:]
    assert len(written.unique()) > 5
    return None, int(written[0, 2]), int(written[-1, 2])


def test_greedy_writes_the_same_tokens(pair):
    ours, theirs, inputs, their_inputs = pair
    for eos_id in ends(ours, inputs):
        theirs.generation_config.eos_token_id = eos_id
        expected = their_tokens(theirs, their_inputs, do_sample=False)
        assert torch.equal(generate(ours, **inputs, max_new_tokens=12, eos_id=eos_id, pad_id=PAD), expected)


@pytest.mark.parametrize("early_stopping", [True, False])
@pytest.mark.parametrize(("n_beams", "length_penalty"), [(2, 1.0), (4, 0.0), (4, 2.0), (3, -1.0)])
def test_beam_search_finds_the_same_sequences(pair, n_beams, early_stopping, length_penalty):
    ours, theirs, inputs, their_inputs = pair
    for eos_id in ends(ours, inputs):
        theirs.generation_config.eos_token_id = eos_id
        expected = their_tokens(
            theirs,
            their_inputs,
            do_sample=False,
            num_beams=n_beams,
            early_stopping=early_stopping,
            length_penalty=length_penalty,
            return_dict_in_generate=True,
            output_scores=True,
        )
        options = {"n_beams": n_beams, "length_penalty": length_penalty, "early_stopping": early_stopping}
        sequences, scores = beam_search(ours, **inputs, max_new_tokens=12, eos_id=eos_id, pad_id=PAD, **options)
        assert torch.equal(sequences, expected.sequences)
        torch.testing.assert_close(scores, expected.sequences_scores, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("options", [{}, {"temperature": 0.7, "top_k": 5}, {"top_p": 0.8}, {"top_k": 9, "top_p": 0.5}])
def test_drawn_tokens_are_the_same_from_the_same_random_numbers(pair, options):
    ours, theirs, inputs, their_inputs = pair
    theirs.generation_config.eos_token_id = end = ends(ours, inputs)[1]
    plain = {"top_k": 0, "top_p": 1.0, "temperature": 1.0}
    expected = their_tokens(theirs, their_inputs, do_sample=True, **(plain | options))
    torch.manual_seed(5)
    assert torch.equal(
        generate(ours, **inputs, max_new_tokens=12, eos_id=end, pad_id=PAD, choose=sampler(**options)), expected
    )
