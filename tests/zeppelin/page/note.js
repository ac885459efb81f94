// Shows the note `?note=ID` and what the server tells of it, by the messages and with the faults of
// Zeppelin's own web UI: an output of type HTML is markup, and its scripts run.
"use strict";

const OVER = ["FINISHED", "ERROR", "ABORT", "READY"];
const noteId = new URLSearchParams(location.search).get("note");
const socket = new WebSocket(`ws://${location.host}/ws`);
const shown = new Map();
window.messages = [];

function draw(paragraph) {
  let root = shown.get(paragraph.id)?.root;
  if (!root) {
    root = element("section", document.getElementById("paragraphs"), { className: "paragraph", id: paragraph.id });
    const head = element("div", root, { className: "head" });
    element("span", head, { className: "title" });
    element("span", head, { className: "links" });
    element("span", head, { className: "status" });
    element("pre", root, { className: "code" });
    element("progress", root, { max: 100, hidden: true });
    element("div", root, { className: "outputs" });
  }
  const known = { root, outputs: paragraph.results?.msg ?? [] };
  shown.set(paragraph.id, known);
  root.dataset.status = paragraph.status;
  root.querySelector(".title").textContent = paragraph.title ?? "";
  root.querySelector(".status").textContent = paragraph.status;
  root.querySelector(".code").textContent = paragraph.text ?? "";
  drawProgress(root, paragraph.progress ?? 0);
  drawLinks(root, paragraph.runtimeInfos);
  root.querySelector(".outputs").replaceChildren();
  known.outputs.forEach((output, index) => drawOutput(known, index));
}

function drawProgress(root, progress) {
  const bar = root.querySelector("progress");
  bar.hidden = OVER.includes(root.dataset.status);
  bar.value = progress;
}

function drawLinks(root, infos) {
  const links = root.querySelector(".links");
  links.replaceChildren();
  const job = infos?.jobUrl;
  for (const value of job?.values ?? [])
    element("a", links, { href: value.jobUrl, title: job.tooltip, textContent: job.label, target: "_blank" });
}

function drawOutput(known, index) {
  const outputs = known.root.querySelector(".outputs");
  while (outputs.children.length <= index) element("div", outputs, { className: "output" });
  drawInto(outputs.children[index], known.outputs[index]);
}

const handlers = {
  NOTE({ note }) {
    document.getElementById("name").textContent = note.name;
    note.paragraphs.forEach(draw);
    document.body.dataset.ready = "true";
  },
  PARAGRAPH({ paragraph }) {
    draw(paragraph);
  },
  PARAGRAPH_ADDED({ paragraph }) {
    draw(paragraph);
  },
  PARAGRAPH_APPEND_OUTPUT({ paragraphId, index, data }) {
    const known = shown.get(paragraphId);
    if (!known) return;
    known.outputs[index] ??= { type: "TEXT", data: "" };
    known.outputs[index].data += data;
    drawOutput(known, index);
  },
  PARAGRAPH_UPDATE_OUTPUT({ paragraphId, index, type, data }) {
    const known = shown.get(paragraphId);
    if (!known) return;
    known.outputs[index] = { type, data };
    drawOutput(known, index);
  },
  PROGRESS({ id, progress }) {
    const known = shown.get(id);
    if (known) drawProgress(known.root, progress);
  },
  PARAS_INFO({ id, infos }) {
    const known = shown.get(id);
    if (known) drawLinks(known.root, infos);
  },
};

socket.onopen = () => socket.send(JSON.stringify({ op: "GET_NOTE", data: { id: noteId }, ...TICKET }));
socket.onmessage = ({ data }) => {
  const message = JSON.parse(data);
  window.messages.push(message.op);
  handlers[message.op]?.(message.data);
};
