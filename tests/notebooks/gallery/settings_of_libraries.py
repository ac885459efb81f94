# Options of matplotlib, pandas and numpy, filters of warnings, levels of logging.

# %%
import logging
import warnings

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

plt.rcParams["figure.figsize"] = (2, 1)
pd.set_option("display.precision", 2)
np.set_printoptions(precision=3, suppress=True)
warnings.filterwarnings("ignore", category=UserWarning)
logger = logging.getLogger("train")
logger.setLevel(logging.INFO)

# %% tags=["heavy"]
warnings.warn("not to be seen")
logger.debug("not to be seen")
print(np.array([1 / 3, 2 / 3]), pd.Series([1 / 3]).to_string())
fig, ax = plt.subplots()
size = fig.get_size_inches().tolist()
plt.close(fig)

# %%
size, pd.Series([1 / 7]), logger.level, np.array([1 / 7])
