"""A small decoder-only transformer that learns to sort digits: `3 1 2 | 1 2 3`."""

import math

import eagerflow as ef
import eagerflow.nn.functional as F

VOCAB, SEP, K, DIM, HEADS, LAYERS, BATCH = 11, 10, 3, 32, 4, 1, 64
T = 2 * K + 1
ef.random.seed(0)


class Attention(ef.nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = ef.nn.Linear(dim, 3 * dim)
        self.proj = ef.nn.Linear(dim, dim)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = ef.array_split(self.qkv(x), 3, axis=-1)
        q, k, v = (a.reshape(B, T, self.heads, C // self.heads).swapaxes(1, 2) for a in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.proj(y.swapaxes(1, 2).reshape(B, T, C))


class ManualAttention(Attention):
    """The same by hand, to compare."""

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = ef.array_split(self.qkv(x), 3, axis=-1)
        q, k, v = (a.reshape(B, T, self.heads, C // self.heads).swapaxes(1, 2) for a in (q, k, v))
        scores = q @ k.swapaxes(-2, -1) / math.sqrt(C // self.heads)
        mask = ef.tril(ef.ones((T, T), dtype=bool))
        scores = ef.where(~mask, float("-inf"), scores)
        return self.proj((F.softmax(scores, axis=-1) @ v).swapaxes(1, 2).reshape(B, T, C))


class Block(ef.nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.ln1, self.ln2 = ef.nn.LayerNorm(dim), ef.nn.LayerNorm(dim)
        self.attn = Attention(dim, heads)
        self.mlp = ef.nn.Sequential(ef.nn.Linear(dim, 4 * dim), F.gelu, ef.nn.Linear(4 * dim, dim))

    def forward(self, x):
        x = x + self.attn(self.ln1(x))
        return x + self.mlp(self.ln2(x))


class GPT(ef.nn.Module):
    def __init__(self):
        super().__init__()
        self.tok = ef.nn.Embedding(VOCAB, DIM)
        self.pos = ef.Variable(0.02 * ef.random.normal((T, DIM)))
        self.blocks = [Block(DIM, HEADS) for _ in range(LAYERS)]
        self.ln = ef.nn.LayerNorm(DIM)
        self.head = ef.nn.Linear(DIM, VOCAB, bias=False)

    def forward(self, idx):
        x = self.tok(idx) + self.pos[: idx.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.head(self.ln(x))


def batch(n):
    x = ef.random.randint((n, K), 0, 10)
    return ef.concat([x, ef.full((n, 1), SEP), ef.sort(x, axis=1)], axis=1)


model = GPT()
print(model)
optimizer = ef.optim.AdamW(model.trainable, lr=3e-3)

# the two attentions agree
att, man = Attention(DIM, HEADS), ManualAttention(DIM, HEADS)
man.load_state(att.state)
z = ef.random.normal((2, T, DIM))
assert ef.allclose(att(z), man(z), atol=1e-5)


def loss_of(seq):
    logits = model(seq[:, :-1])
    return F.cross_entropy(logits[:, K:].reshape(-1, VOCAB), seq[:, K + 1 :].reshape(-1))


@ef.trace
def train_step(seq):
    loss, grads = ef.value_and_grad(loss_of, wrt=model.trainable)(seq)
    optimizer.update(grads)
    return loss


@ef.trace
def next_token(idx, temperature):
    logits = model(idx)[:, -1]
    probs = F.softmax(logits / temperature, axis=-1)
    return ef.random.categorical((), ef.log(probs))[:, None]


def generate(idx, n, temperature=1.0):
    model.eval()
    for _ in range(n):
        idx = ef.concat([idx, next_token(idx, temperature)], axis=1)
    return idx


# causality: later tokens do not change earlier logits
s = batch(4)
other = s.copy()
other[:, -1] = 0
assert (model(s[:, :-1])[:, :-1] == model(other[:, :-1])[:, :-1]).all()

for i in range(151):
    loss = train_step(batch(BATCH))
    if i % 25 == 0:
        print(i, f"{loss.item():.4f}")
seq = batch(200)
out = generate(seq[:, : K + 1], K, 0.1)
exact = (out == seq).all(axis=1).astype(ef.float32).mean()
print("exact", exact.item(), out[0].tolist())
assert exact > 0.8
print(next_token.explain())
