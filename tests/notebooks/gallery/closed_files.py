# `with open` in the job's cell binds a file that is closed by then.

# %%
from pathlib import Path

folder = Path("notes")

# %% tags=["heavy"]
folder.mkdir()
with open(folder / "a.txt", "w") as out:
    out.write("hello")
with open("notes/a.txt") as source:
    text = source.read()

# %%
text, out.closed, source.name, sorted(folder.iterdir())
