# display, HTML, Markdown, display ids that are updated, in order with what is printed.

# %%
import pandas as pd
from IPython.display import HTML, Image, Markdown, display, update_display

df = pd.DataFrame({"a": [1, 2]})

# %% tags=["heavy"]
print("one")
display(df)
print("two")
display(HTML("<b>bold</b>"), Markdown("*words*"))
display("progress 0", display_id="bar")
handle = display({"text/plain": "raw", "text/html": "<i>raw</i>"}, raw=True, display_id=True)
update_display("progress 1", display_id="bar")
handle.update({"text/plain": "cooked"}, raw=True)
print("three")
df.assign(b=3)

# %%
update_display("progress 2", display_id="bar")
