// A tree of elements ([tag, attributes, children], or text), and the page brought up to it. All text
// goes in as text nodes: nothing that a job wrote becomes markup.

import { clock } from "./words.js";

const TAGS = new Set(
  ("a button caption circle code details div form g input li ol path polyline pre span strong summary " +
    "svg table tbody td text textarea th thead title tr ul").split(" "),
);
const DRAWN = new Set(["circle", "g", "path", "polyline", "svg", "text", "title"]);
const ATTRIBUTES = new Set(
  ("title href target rel role scope open tabindex type disabled hidden name required placeholder " +
    "rows spellcheck viewBox points cx cy r d x y").split(" "),
);
const FIELDS = new Set(["input", "textarea"]);
const STYLES = { grow: "flexGrow", width: "width" };
const OURS = /^(smc-[\w-]+|submarine-card|tex2jax_ignore)$/; // a page's other classes do other things

function assign(node, before, after) {
  for (const name of Object.keys(before)) if (!(name in after)) put(node, name, null);
  // What went on here is other by now than it was sent.
  const isSame = (name, value) => before[name] === value && !(name in STYLES && "data-ticks" in before);
  for (const [name, value] of Object.entries(after)) if (!isSame(name, value)) put(node, name, value);
}

function put(node, name, value) {
  if (name in STYLES) node.style[STYLES[name]] = value ?? "";
  else if (name === "class") node.setAttribute(name, classes(value ?? ""));
  // A form or a picture with a name would take the place of what the page has under that name.
  else if (name === "name" && !FIELDS.has(node.localName)) return;
  else if (!ATTRIBUTES.has(name) && !/^(aria|data)-[a-z-]+$/.test(name)) return;
  else if (value === null || (name === "href" && !/^https?:\/\//i.test(value))) node.removeAttribute(name);
  else node.setAttribute(name, value);
}

const classes = (value) => value.split(" ").filter((each) => OURS.test(each)).join(" ");

export function build(spec) {
  if (typeof spec === "string") return document.createTextNode(spec);
  const [tag, attributes, children] = spec;
  const node = DRAWN.has(tag)
    ? document.createElementNS("http://www.w3.org/2000/svg", tag)
    : document.createElement(TAGS.has(tag) ? tag : "span");
  assign(node, {}, attributes);
  node.append(...children.map(build));
  return node;
}

// Changes only what differs: what the reader opened, focused or is about to click stays as it is.
export function patch(node, before, after) {
  if (typeof before === "string" && typeof after === "string") {
    if (node.data !== after) node.data = after; // a time that went on is another one than before
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

// The tree as the page has it now: `changes` has, by `data-slot` or `data-action`, what differs of an
// element: attributes (null takes one away), and `text`, its only child, or `inside`, all of them.
export function change(spec, changes) {
  if (typeof spec === "string") return spec;
  const [tag, attributes, children] = spec;
  const { text, inside: given, ...own } = changes[attributes["data-slot"] ?? attributes["data-action"]] ?? {};
  const kept = Object.entries({ ...attributes, ...own }).filter(([, value]) => value !== null);
  const inside = text === undefined ? (given ?? children).map((each) => change(each, changes)) : [text];
  return [tag, Object.fromEntries(kept), inside];
}

// Whether this is a tree, whoever made it.
export function isTree(spec, depth = 20) {
  if (typeof spec === "string") return true;
  if (!Array.isArray(spec) || !depth) return false;
  const [tag, attributes, children] = spec;
  const named = attributes && typeof attributes === "object" && !Array.isArray(attributes);
  if (typeof tag !== "string" || !named || !Array.isArray(children)) return false;
  const texts = Object.values(attributes).every((value) => typeof value === "string");
  return texts && children.every((each) => isTree(each, depth - 1));
}

// Times that go on: `data-ticks` has the seconds that each had `age` seconds ago.
export function tick(root, age) {
  for (const node of root.querySelectorAll("[data-ticks]")) {
    const seconds = Number(node.dataset.ticks) + age;
    if (node.firstChild) node.firstChild.data = clock(seconds);
    else node.style.flexGrow = seconds * 1000; // as Python has it: flex leaves a sum below 1 unfilled
  }
}
