// Shows the note `#/notebook/ID` by the messages and with the faults of Zeppelin's new web UI: none
// tells of output that grows, and a result that has more outputs than were there before is drawn
// only at the next message about its paragraph.
"use strict";

const noteId = location.hash.split("/")[2];
const socket = new WebSocket(`ws://${location.host}/ws`);
const shown = new Map();

function begin(paragraph) {
  const root = element("zeppelin-notebook-paragraph", document.getElementById("paragraphs"));
  element("div", root, { className: "job-link" });
  element("div", root, { className: "status" });
  const known = { root, results: [], undrawn: [] };
  shown.set(paragraph.id, known);
  take(known, paragraph.results?.msg ?? []);
  drawHead(known, paragraph);
  drawRest(known);
}

function drawHead({ root }, { status, runtimeInfos }) {
  if (status) root.querySelector(".status").textContent = status;
  const job = runtimeInfos?.jobUrl;
  const link = root.querySelector(".job-link");
  link.replaceChildren();
  if (job) element("a", link, { href: job.values[0].jobUrl, title: job.tooltip, textContent: job.label });
}

function take(known, results) {
  while (known.results.length > results.length) known.results.pop().remove();
  while (known.results.length < results.length) {
    const added = element("zeppelin-notebook-paragraph-result", known.root);
    known.undrawn.push([added, results[known.results.length]]);
    known.results.push(added);
  }
}

function drawRest(known) {
  for (const [added, result] of known.undrawn.splice(0)) drawInto(added, result);
}

const handlers = {
  NOTE({ note }) {
    note.paragraphs.forEach(begin);
    document.body.dataset.ready = "true";
  },
  PARAGRAPH({ paragraph }) {
    const known = shown.get(paragraph.id);
    if (!known) return begin(paragraph);
    drawRest(known);
    const results = paragraph.results?.msg ?? [];
    results.slice(0, known.results.length).forEach((one, index) => drawInto(known.results[index], one));
    if (paragraph.status !== "RUNNING" && paragraph.results) take(known, results);
    drawHead(known, paragraph);
  },
  PARAGRAPH_ADDED({ paragraph }) {
    begin(paragraph);
  },
  PROGRESS({ id }) {
    if (shown.has(id)) drawRest(shown.get(id));
  },
  PARAS_INFO({ id, infos }) {
    const known = shown.get(id);
    if (!known) return;
    drawHead(known, { runtimeInfos: infos });
    drawRest(known);
  },
};

socket.onopen = () => socket.send(JSON.stringify({ op: "GET_NOTE", data: { id: noteId }, ...TICKET }));
socket.onmessage = ({ data }) => {
  const message = JSON.parse(data);
  handlers[message.op]?.(message.data);
};
