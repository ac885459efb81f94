// What both pages draw alike.
"use strict";

const TICKET = { principal: "anonymous", ticket: "anonymous", roles: "[]" };

function element(kind, parent, properties = {}) {
  return parent.appendChild(Object.assign(document.createElement(kind), properties));
}

function drawInto(target, { type, data }) {
  target.replaceChildren();
  target.dataset.type = type;
  if (type === "HTML" || type === "ANGULAR")
    target.append(document.createRange().createContextualFragment(data));
  else if (type === "TABLE") drawTable(target, data);
  else if (type === "IMG") element("img", target, { src: `data:image/png;base64,${data.trim()}` });
  else element("div", target, { className: "text", textContent: data });
}

function drawTable(target, data) {
  const rows = data.trimEnd().split("\n").map((row) => row.split("\t"));
  const table = element("table", target, { className: "data" });
  rows.forEach((row, number) => {
    const line = element("tr", table);
    for (const cell of row) element(number ? "td" : "th", line, { textContent: cell });
  });
}
