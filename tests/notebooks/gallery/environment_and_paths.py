# os.environ, working directory and module path are set before the job's cell.

# %%
import os
import sys

os.makedirs("work/src", exist_ok=True)
os.chdir("work")
text = "SCALE = 3\n\ndef scaled(x):\n    return SCALE * x\n"
_ = open("src/helpers.py", "w").write(text)
os.environ["PROOF_MODE"] = "before"
sys.path.append("src")

# %% tags=["heavy"]
from helpers import scaled

print(os.environ["PROOF_MODE"], scaled(2), os.path.basename(os.getcwd()))
path = os.path.abspath("result.txt")
written = open("result.txt", "w").write("42")

# %%
print(scaled(5), written, open(path).read(), os.listdir("."))
