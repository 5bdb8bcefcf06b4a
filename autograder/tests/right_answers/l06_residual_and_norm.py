"""Lesson 06: right answers by built-ins, einsum, loops over rows, float32 or float64 inside, var_mean and lerp."""

import math

import torch
import torch.nn.functional as F


def network_by_einsum(x, W_1, b_1, W_2, b_2, activation="relu"):
    z = torch.einsum("...d,df->...f", x, W_1) + b_1
    h = 0.5 * z * (1 + torch.erf(z / math.sqrt(2))) if activation == "gelu" else z.clamp(min=0)
    return torch.einsum("...f,fd->...d", h, W_2) + b_2


def network_by_linear(x, W_1, b_1, W_2, b_2, activation="relu"):
    phi = {"relu": torch.relu, "gelu": torch.nn.GELU()}[activation]
    return F.linear(phi(F.linear(x, W_1.T, b_1)), W_2.T, b_2)


def network_by_memory(x, W_1, b_1, W_2, b_2, activation="relu"):
    """Slot by slot: how much key i fires, times value i."""
    total = b_2.expand(x.shape)
    for i in range(len(b_1)):
        z = (x * W_1[:, i]).sum(-1, keepdim=True) + b_1[i]
        fires = torch.where(z > 0, z, 0.0) if activation == "relu" else z * torch.special.ndtr(z)
        total = total + fires * W_2[i]
    return total


def swiglu_by_sigmoid(x, W_gate, W_up, W_down):
    z = x @ W_gate
    return (z * torch.sigmoid(z) * (x @ W_up)) @ W_down


def swiglu_by_exponential(x, W_gate, W_up, W_down):
    gate, up = (torch.matmul(x, W) for W in (W_gate, W_up))
    return torch.matmul(up * gate / (1 + torch.exp(-gate)), W_down)


def swiglu_by_concatenation(x, W_gate, W_up, W_down):
    gate, up = (x @ torch.cat((W_gate, W_up), dim=1)).chunk(2, dim=-1)
    return torch.nn.SiLU()(gate).mul(up).matmul(W_down)


def residual_by_add(x, sublayer):
    return torch.add(sublayer(x), x)


def residual_in_a_new_tensor(x, sublayer):
    y = x.clone()
    y += sublayer(x)
    return y


def residual_by_sum(x, sublayer):
    return torch.stack([x, sublayer(x)]).sum(dim=0)


def batch_norm_by_var_mean(x, gamma, beta, running_mean, running_var, training=True, momentum=0.1, eps=1e-5):
    if not training:
        return gamma * (x - running_mean) * torch.rsqrt(running_var + eps) + beta, running_mean, running_var
    var, mean = torch.var_mean(x, dim=0, correction=0)
    y = gamma * (x - mean) * torch.rsqrt(var + eps) + beta
    with torch.no_grad():
        new_mean = torch.lerp(running_mean, mean, momentum)
        new_var = torch.lerp(running_var, x.var(0), momentum)
    return y, new_mean, new_var


def batch_norm_by_columns(x, gamma, beta, running_mean, running_var, training=True, momentum=0.1, eps=1e-5):
    columns, means, variances = [], [], []
    for j in range(x.shape[1]):
        column, m, v = x[:, j], running_mean[j], running_var[j]
        if training:
            B = len(column)
            centre = column.sum() / B
            squares = ((column - centre) ** 2).sum()
            m, v = m + momentum * (centre - m), v + momentum * (squares / (B - 1) - v)
            columns.append(gamma[j] * (column - centre) / (squares / B + eps) ** 0.5 + beta[j])
        else:
            columns.append(gamma[j] * (column - m) / (v + eps) ** 0.5 + beta[j])
        means.append(m)
        variances.append(v)
    return torch.stack(columns, dim=1), torch.stack(means), torch.stack(variances)


def batch_norm_with_detached_averages(x, gamma, beta, running_mean, running_var, training=True, momentum=0.1, eps=1e-5):
    used = (x.mean(0), x.var(0, unbiased=False)) if training else (running_mean, running_var)
    y = (x - used[0]) / torch.sqrt(used[1] + eps) * gamma + beta
    if training:
        new = x.detach().mean(0), x.detach().var(0)
        running_mean, running_var = (
            (1 - momentum) * old.detach() + momentum * n for old, n in zip((running_mean, running_var), new)
        )
    return y, running_mean.clone(), running_var.clone()


def layer_norm_by_var_mean(x, gamma, beta, eps=1e-5):
    wide = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
    var, mean = torch.var_mean(wide, dim=-1, correction=0, keepdim=True)
    return ((wide - mean) / torch.sqrt(var + eps) * gamma + beta).to(x.dtype)


def layer_norm_in_float64(x, gamma, beta, eps=1e-5):
    z = x.double()
    z = z - z.mean(-1, keepdim=True)
    sigma_squared = (z * z).sum(-1, keepdim=True) / x.shape[-1]
    return torch.addcmul(beta.double(), z * (sigma_squared + eps) ** -0.5, gamma.double()).type_as(x)


def layer_norm_by_rows(x, gamma, beta, eps=1e-5):
    rows = []
    for row in x.reshape(-1, x.shape[-1]):
        z = row.to(torch.promote_types(row.dtype, torch.float32))
        z = z - z.mean()
        rows.append(z / (z.pow(2).mean() + eps).sqrt())
    return (torch.stack(rows).reshape(x.shape) * gamma + beta).to(x.dtype)


def layer_norm_by_std(x, gamma, beta, eps=1e-5):
    """γ and β in half precision, as many codes do it: one more rounding."""
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    variance = wide.std(dim=-1, unbiased=False, keepdim=True) ** 2
    return gamma * ((wide - wide.mean(dim=-1, keepdim=True)) / (variance + eps) ** 0.5).to(x.dtype) + beta


def rms_by_rsqrt(x, gamma, eps=1e-6):
    wide = x.float() if x.element_size() == 2 else x
    return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)).to(x.dtype) * gamma


def rms_by_length(x, gamma, eps=1e-6):
    z = x.double()
    length_squared = torch.linalg.vecdot(z, z).unsqueeze(-1)
    return (math.sqrt(x.shape[-1]) * z / torch.sqrt(length_squared + x.shape[-1] * eps) * gamma).type_as(x)


def rms_by_einsum(x, gamma, eps=1e-6):
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    squares = torch.einsum("...d,...d->...", wide, wide)[..., None] / x.size(-1)
    return torch.div(wide, torch.sqrt(squares + eps)).mul(gamma).to(x.dtype)


def dyt_as_it_comes(x, alpha, gamma, beta):
    return gamma * torch.tanh(alpha * x) + beta


def dyt_by_exponentials(x, alpha, gamma, beta):
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    e = torch.exp(-2 * alpha * wide)
    return (beta + gamma * (1 - e) / (1 + e)).to(x.dtype)


def dyt_by_sigmoid(x, alpha, gamma, beta):
    wide = x.double()
    return torch.addcmul(beta.double(), gamma.double(), 2 * torch.sigmoid(2 * alpha.double() * wide) - 1).type_as(x)


def sublayer_by_cases(x, sublayer, norm, placement="post"):
    match placement:
        case "post":
            return norm(sublayer(x) + x)
        case "pre":
            return sublayer(norm(x)) + x


def sublayer_step_by_step(x, sublayer, norm, placement="post"):
    pre = placement == "pre"
    entered = norm(x) if pre else x
    added = torch.add(x, sublayer(entered))
    return added if pre else norm(added)


RIGHT = {
    "feed_forward": [network_by_einsum, network_by_linear, network_by_memory],
    "swiglu": [swiglu_by_sigmoid, swiglu_by_exponential, swiglu_by_concatenation],
    "residual": [residual_by_add, residual_in_a_new_tensor, residual_by_sum],
    "batch_norm": [batch_norm_by_var_mean, batch_norm_by_columns, batch_norm_with_detached_averages],
    "layer_norm": [layer_norm_by_var_mean, layer_norm_in_float64, layer_norm_by_rows, layer_norm_by_std],
    "rms_norm": [rms_by_rsqrt, rms_by_length, rms_by_einsum],
    "dynamic_tanh": [dyt_as_it_comes, dyt_by_exponentials, dyt_by_sigmoid],
    "encoder_sublayer": [sublayer_by_cases, sublayer_step_by_step],
    "06_q1": ["d", "(D)"],
    "06_q2": ["b", " B. "],
}
