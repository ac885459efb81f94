// A tree of elements ([tag, attributes, children], or text), and the page brought up to it. All text
// goes in as text nodes: nothing that a job wrote becomes markup.

import { clock } from "./words.js";

const TAGS = new Set(
  "a button caption code details div li pre span strong summary table tbody td th thead tr ul".split(" "),
);
const ATTRIBUTES = new Set(
  "class title href target rel role scope open tabindex type disabled".split(" "),
);
const STYLES = { grow: "flexGrow", width: "width" };

function assign(node, before, after) {
  for (const name of Object.keys(before)) if (!(name in after)) put(node, name, null);
  for (const [name, value] of Object.entries(after)) if (before[name] !== value) put(node, name, value);
}

function put(node, name, value) {
  if (name in STYLES) node.style[STYLES[name]] = value ?? "";
  else if (!ATTRIBUTES.has(name) && !/^(aria|data)-[a-z]+$/.test(name)) return;
  else if (value === null) node.removeAttribute(name);
  else if (name !== "href" || /^https?:\/\//i.test(value)) node.setAttribute(name, value);
}

export function build(spec) {
  if (typeof spec === "string") return document.createTextNode(spec);
  const [tag, attributes, children] = spec;
  const node = document.createElement(TAGS.has(tag) ? tag : "span");
  assign(node, {}, attributes);
  node.append(...children.map(build));
  return node;
}

// Changes only what differs: what the reader opened, focused or is about to click stays as it is.
export function patch(node, before, after) {
  if (typeof before === "string" && typeof after === "string") {
    if (before !== after) node.data = after;
  } else if (typeof before === "string" || typeof after === "string" || before[0] !== after[0]) {
    node.replaceWith(build(after));
  } else {
    assign(node, before[1], after[1]);
    const [old, now] = [before[2], after[2]];
    for (let at = old.length; at > now.length; at--) node.childNodes[at - 1].remove();
    now.forEach((child, at) => {
      if (at < old.length) patch(node.childNodes[at], old[at], child);
      else node.append(build(child));
    });
  }
}

// Times that go on: `data-ticks` has the seconds that each had `age` seconds ago.
export function tick(root, age) {
  for (const node of root.querySelectorAll("[data-ticks]")) {
    const seconds = Number(node.dataset.ticks) + age;
    if (node.firstChild) node.firstChild.data = clock(seconds);
    else node.style.flexGrow = seconds * 1000; // as Python has it: flex leaves a sum below 1 unfilled
  }
}
