// The live job card. Python sends a tree of elements; this file draws it, keeps it up to date, lets
// running times tick, and cancels.

import { build, patch, tick } from "./tree.js";

const PATIENCE = 1000; // ms that the kernel has to take up a cancel before its cell is interrupted

// The Jupyter server's own interrupt: unlike a message to the widget it is heard at once, always.
async function interrupt(kernel) {
  const page = JSON.parse(document.getElementById("jupyter-config-data")?.textContent || "{}");
  const base = page.baseUrl ?? document.body.dataset.baseUrl;
  if (!base || !kernel) throw new Error("press the stop button of the cell");
  const headers = {};
  const xsrf = document.cookie.match(/(?:^|; )_xsrf=([^;]*)/);
  if (xsrf) headers["X-XSRFToken"] = decodeURIComponent(xsrf[1]);
  if (page.token) headers.Authorization = `token ${page.token}`;
  const url = `${base}api/kernels/${encodeURIComponent(kernel)}/interrupt`;
  const answer = await fetch(url, { method: "POST", headers });
  if (!answer.ok) throw new Error(`the server refused (${answer.status}): press the cell's stop button`);
}

// The kernel's own log server hears at once too; it can be reached on the machine of the kernel only.
async function post(address) {
  const near = (host) => ["127.0.0.1", "localhost", "[::1]"].includes(host);
  if (!address || !near(new URL(address).hostname)) return false;
  if (!near(location.hostname) && location.protocol !== "vscode-webview:") return false;
  try {
    return (await fetch(address, { method: "POST" })).ok;
  } catch {
    return false;
  }
}

function heard(model) {
  return new Promise((resolve) => {
    const yes = () => resolve(true);
    model.on("change:heard", yes);
    setTimeout(() => {
      model.off("change:heard", yes);
      resolve(model.get("heard"));
    }, PATIENCE);
  });
}

async function cancel(model, button) {
  [button.disabled, button.textContent] = [true, "Cancelling…"];
  try {
    model.send({ cancel: true });
    // A kernel that is busy hears the message too late. The other ways are for this very job only:
    // an interrupt goes to whatever cell runs, so it has to be this job's.
    if (await post(model.get("cancel"))) return;
    if (!(await heard(model)) && model.get("blocking")) await interrupt(model.get("kernel"));
  } catch (error) {
    [button.disabled, button.textContent] = [false, `Not cancelled: ${error.message}`];
  }
}

function render({ model, el }) {
  let [shown, skew] = [model.get("tree"), 0];
  const card = build(shown);
  const age = () => Math.max(0, Date.now() / 1000 - skew - model.get("at"));
  const beat = () => tick(card, age());
  const update = () => {
    skew = Date.now() / 1000 - model.get("at"); // the kernel's clock need not be this machine's
    patch(card, shown, model.get("tree"));
    shown = model.get("tree");
    beat();
  };
  card.addEventListener("click", (event) => {
    const button = event.target.closest("[data-action=cancel]");
    if (button) cancel(model, button);
  });
  model.on("change:at", update);
  const timer = setInterval(beat, 1000);
  card.append(...model.get("rest").map(build));
  el.append(card);
  beat();
  return () => {
    clearInterval(timer);
    model.off("change:at", update);
  };
}

export default { render };
