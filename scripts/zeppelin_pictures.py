"""The picture of a note in a real Zeppelin, by the page that stands in for its web UI in tests."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from lab_driver import LIMIT
from playwright.sync_api import Browser

ROOT = Path(__file__).parents[1]
PARAGRAPHS = [
    (
        "What is to be trained",
        """%submarine.python
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

digits = load_digits()
train_x, test_x, train_y, test_y = train_test_split(digits.data / 16, digits.target)

def train(epochs):
    model = MLPClassifier((64,), learning_rate_init=0.01, random_state=0)
    history = []
    for epoch in range(1, epochs + 1):
        model.partial_fit(train_x, train_y, classes=range(10))
        right = model.score(test_x, test_y)
        history.append({"epoch": epoch, "loss": model.loss_, "accuracy": right})
        print(f"Epoch {epoch}/{epochs} - loss: {model.loss_:.2f} - accuracy: {right:.0%}")
    return history""",
    ),
    ("The same on two GPUs", "%submarine.run --gpus 2 --name digits\nhistory = train(epochs=4)"),
    (
        "What came back",
        "%submarine.python\nimport pandas as pd\n\npd.DataFrame(history).round(3)",
    ),
]


def take_zeppelin(browser: Browser, target: Path, width: int) -> None:
    """Run the note, and take a picture of the whole of it."""
    sys.path.insert(0, str(ROOT))  # what drives Zeppelin for tests drives it for pictures
    from tests.zeppelin.rest import Client  # noqa: PLC0415 - as above
    from tests.zeppelin.server import Server  # noqa: PLC0415 - as above

    with tempfile.TemporaryDirectory(prefix="submarine-", ignore_cleanup_errors=True) as folder:
        server = Server(Path(folder), environment={"SUBMARINE_LOCAL_GPUS": "2"})
        try:
            server.start()
            note = Client(server.url).note("Handwritten digits", *PARAGRAPHS)
            context = browser.new_context(
                viewport={"width": width, "height": 600}, device_scale_factor=2
            )
            page = context.new_page()
            page.set_default_timeout(LIMIT)
            page.goto(f"{server.url}/?note={note.id}")
            page.wait_for_selector("body[data-ready]")
            for number in range(len(PARAGRAPHS)):
                done = note.run(number)
                if done["status"] != "FINISHED":
                    raise RuntimeError(f"a paragraph failed: {done}")
            page.wait_for_selector(".submarine-card[data-state=succeeded]")
            page.wait_for_selector("table.data")
            page.screenshot(path=target, full_page=True)
            context.close()
        finally:
            server.close()
