"""Cases of einsum: every kind of subscripts against a sum over all index values, in loops."""

from __future__ import annotations

import itertools

import numpy as np

from tests.ops.case import ALL, INEXACT, OpCase
from tests.ops.cases.linalg import ONE, wide


def naive(subscripts: str, *arrays):
    """Einsum by its definition: one product for each value of each index. Without "..."."""
    arrays = [wide(a) for a in arrays]
    inputs, _, output = subscripts.partition("->")
    terms = inputs.split(",")
    sizes: dict[str, int] = {}
    for term, x in zip(terms, arrays, strict=True):
        for letter, size in zip(term, x.shape, strict=True):
            sizes[letter] = max(sizes.get(letter, 1), size) if size else 0
    out = np.zeros([sizes[letter] for letter in output], dtype=arrays[0].dtype)
    for values in itertools.product(*(range(n) for n in sizes.values())):
        at = dict(zip(sizes, values, strict=True))
        product = arrays[0].dtype.type(1)
        for term, x in zip(terms, arrays, strict=True):
            place = tuple(0 if n == 1 else at[k] for k, n in zip(term, x.shape, strict=True))
            product = product * x[place]
        index = tuple(at[k] for k in output)
        out[index] = (out[index] | product) if out.dtype == bool else out[index] + product
    return out


#: subscripts, the same spelled out if it differs, shapes
ROWS = (
    ("ij,jk->ik", "", (2, 3), (3, 4)),
    ("ij,jk", "ij,jk->ik", (2, 3), (3, 4)),
    ("ba", "ba->ab", (2, 3)),
    ("ij,kj->ki", "", (2, 3), (4, 3)),
    ("ii", "ii->", (3, 3)),
    ("ii->i", "", (3, 3)),
    ("ij->", "", (2, 3)),
    ("ij->j", "", (2, 3)),
    ("ijk->kij", "", (2, 3, 4)),
    ("iji->j", "", (2, 3, 2)),
    ("iii->i", "", (3, 3, 3)),
    ("i,i", "i,i->", (3,), (3,)),
    ("i,i->i", "", (3,), (3,)),
    ("i,j->ij", "", (3,), (2,)),
    ("i,j->ji", "", (3,), (2,)),
    ("i,->i", "", (3,), ()),
    ("bij,bjk->bik", "", (2, 3, 4), (2, 4, 3)),
    ("bqhd,bkhd->bhqk", "", (2, 3, 2, 4), (2, 3, 2, 4)),
    ("abij,jiac->cb", "", (2, 3, 2, 3), (3, 2, 2, 2)),
    ("iij,jkk->ik", "", (2, 2, 3), (3, 2, 2)),
    ("ij,j->", "", (2, 3), (3,)),
    ("i,ij->j", "", (2,), (2, 3)),
    ("ij,ij->i", "", (2, 3), (1, 3)),
    ("ij,jk->ik", "", (2, 1), (3, 4)),
    ("ii,jj->j", "", (3, 3), (2, 2)),
    ("ii,jj,kl->lk", "", (2, 2), (3, 3), (2, 3)),
    ("ij,jk->ik", "", (2, 0), (0, 3)),
    ("...ij,...jk->...ik", "abij,bjk->abik", (2, 1, 2, 3), (3, 3, 2)),
    ("...i,i", "abi,i->ab", (2, 3, 2), (2,)),
    ("i...->...", "ia->a", (2, 3)),
    ("...,...", "ab,b->ab", (2, 3), (3,)),
    ("a...b->b...a", "axyb->bxya", (2, 3, 1, 2)),
    ("ij,jk,kl->il", "", (2, 3), (3, 4), (4, 2)),
    ("i,j,k->kij", "", (2,), (3,), (2,)),
    ("xi,yi,i->xy", "", (2, 3), (3, 3), (3,)),
    ("ij,ik,il->jkl", "", (2, 3), (2, 2), (2, 3)),
    ("ab,bc,cd,da", "ab,bc,cd,da->", (2, 3), (3, 2), (2, 3), (3, 2)),
    (" i j , j k -> k i ", "ij,jk->ki", (2, 3), (3, 4)),
)


def _row(subscripts: str, spelled: str, *shapes: tuple[int, ...], **kwargs):
    full = (spelled or subscripts).replace(" ", "")
    label = f"{subscripts.replace(' ', '_')}-{'-'.join(map(str, shapes))}".replace(" ", "")
    return OpCase(
        "einsum",
        lambda s: (subscripts, *(s.array(shape=shape) for shape in shapes)),
        lambda _, *arrays, **options: naive(full, *arrays),
        dtypes=kwargs.pop("dtypes", INEXACT),
        grad=tuple(range(1, len(shapes) + 1)),
        layouts=ONE,
        label=label,
        tolerance=3,
        kwargs=kwargs,
    )


CASES = [
    *(_row(*row) for row in ROWS),
    _row("cd,de->ce", "", (2, 3), (3, 4), dtypes=ALL),
    _row("def->e", "", (2, 3, 2), dtypes=ALL),
    _row("ef,fg,gh->he", "", (2, 3), (3, 4), (4, 2), optimize=False),
    _row("fg,gh,hi->if", "", (2, 3), (3, 4), (4, 2), optimize="optimal"),
    OpCase("einsum",
           lambda s: (s.array(shape=(2, 3)), [0, 1], s.array(shape=(3, 2)), [1, 2], [2, 0]),
           lambda a, _, b, *rest: naive("ij,jk->ki", a, b), dtypes=INEXACT, grad=(0, 2),
           layouts=ONE, label="lists", tolerance=3),
    OpCase("einsum", lambda s: (s.array(shape=(2, 3)), [..., 1], s.array(shape=(3,)), [1]),
           lambda a, _, b, *rest: naive("ij,j->i", a, b), dtypes=INEXACT, grad=(0, 2),
           layouts=ONE, label="lists-implicit", tolerance=3),
]  # fmt: skip
