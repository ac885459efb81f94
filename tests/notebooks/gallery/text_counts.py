# Words, vocabularies and iterators: a corpus is cleaned in the job, the next cells look things up.

# %%
import itertools
import re
from collections import Counter
from pathlib import Path

Path("corpus.txt").write_text("the cat sat\non the mat\nthe end\n")
vocab = {"<pad>": 0}
inverse = {0: "<pad>"}
ids = itertools.count(1)

# %% tags=["heavy"]
TOKEN = re.compile(r"\w+")


def tokens(text):
    for match in TOKEN.finditer(text):
        yield match.group()


counter = Counter()
for line in Path("corpus.txt").open():
    for word in tokens(line):
        counter[word] += 1
        if word not in vocab:
            vocab[word] = len(vocab)
            inverse[vocab[word]] = word
counter.most_common(1)

# %%
print(list(tokens("the new cat")), [vocab.get(w, -1) for w in tokens("the new cat")])
next(ids), inverse[1], counter["the"], TOKEN.pattern
