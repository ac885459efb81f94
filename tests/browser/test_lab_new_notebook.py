"""*New → Notebook on Cluster…*: asked for in a dialog, opened when it is ready, told why not."""

from __future__ import annotations

import pytest

DIALOG = ".jp-Dialog-content"


@pytest.mark.long
def test_a_notebook_on_the_cluster_is_asked_for_and_opened(panel, page, lab):
    panel.execute("submarine:new-notebook", cwd="")
    dialog = page.locator(DIALOG)
    dialog.get_by_label("GPUs").fill("many")
    assert dialog.get_by_label("Queue").is_hidden()  # this machine has none
    dialog.get_by_role("button", name="Start").click()
    dialog = page.locator(DIALOG, has_text="GPUs: 'many' is not possible. Give a whole number")
    assert dialog.get_by_label("GPUs").input_value() == "many"
    assert dialog.locator("[aria-invalid=true]:focus").get_attribute("name") == "gpus"
    dialog.get_by_label("GPUs").fill("1")
    dialog.get_by_label("Folder").fill("nowhere-at-all")
    dialog.get_by_role("button", name="Start").click()
    failed = page.locator(".Toastify__toast", has_text="did not start")
    failed.get_by_text("there is no folder").wait_for()
    panel.execute("submarine:new-notebook", cwd="")
    page.locator(DIALOG).get_by_label("GPUs").fill("1")
    with page.context.expect_page() as opened:
        page.locator(DIALOG).get_by_role("button", name="Start").click()
    served = opened.value
    served.locator(".jp-LauncherCard[data-category=Notebook]").first.wait_for()
    assert "/submarine/proxy/" in served.url
    assert lab.token not in served.url
    page.locator(".Toastify__toast", has_text="is ready").get_by_role(
        "button", name="Open notebook"
    ).wait_for()
    # The same from the list of jobs, for who comes later.
    (row,) = page.locator(".submarine-Job[data-state=running]").all()
    row.click()
    with page.context.expect_page() as again:
        panel.button("open-notebook").click()
    assert "/submarine/proxy/" in again.value.url
    panel.button("cancel").click()
    page.wait_for_selector(".submarine-Job[data-state=cancelled]")
