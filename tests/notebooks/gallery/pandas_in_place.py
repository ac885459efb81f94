# Frames changed in place: new columns, drop, rename, fillna, sort, loc, a group's means.

# %%
import warnings

import numpy as np
import pandas as pd

warnings.simplefilter("ignore")
df = pd.DataFrame({"city": ["a", "b", "a", "c"], "t": [1.0, np.nan, 3.0, 4.0], "junk": 0})
same = df
frames = {"weather": df, "copy": df.copy()}

# %% tags=["heavy"]
df["t"] = df["t"].fillna(df["t"].mean())
df["hot"] = df.t > 2
df.drop(columns="junk", inplace=True)
df.rename(columns={"t": "temp"}, inplace=True)
df.loc[df.city == "b", "temp"] = -1.0
df.sort_values("temp", ascending=False, inplace=True)
df.attrs["source"] = "station"
means = df.groupby("city").temp.mean()
df

# %%
print(same is df, frames["weather"] is df, list(same.columns), list(frames["copy"].columns))
df.index.name = "row"
means

# %% tags=["heavy"]
counts = df.city.value_counts()
df = df.reset_index()
display(df.describe())
df.head(2)

# %%
same is df, counts.to_dict()
