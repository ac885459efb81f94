// The log page: shows the end of a log and follows it. All text goes in as text nodes.
import { seen, size } from "./words.js";

const TAIL = 256 * 1024; // bytes shown of a log that is already there, and the most of one step
const MOST_LINES = 5000;
const EVERY = 700; // ms
const $ = (id) => document.getElementById(id);
const MOST_OF_A_LINE = 64 * 1024;

let chosen; // "worker-0/stdout"
let choice = 0; // counts the choices: what was read for a former one is dropped
let place = 0; // how far it was read, in bytes
let decoder, pending, style, partial;
let about = ""; // what there is to say of the chosen log
let running = false;

function note(text) {
  $("note").textContent = text;
  $("note").hidden = !text;
}

function select(log) {
  chosen = `${log.task}/${log.stream}`;
  choice += 1;
  place = Math.max(0, log.size - TAIL);
  partial = place > 0; // the first line may begin in its middle
  [decoder, pending, style] = [new TextDecoder(), "", []];
  $("lines").replaceChildren(document.createElement("div"));
  $("raw").href = `logs/${chosen}`;
  $("raw").download = `${log.task}-${log.stream}.txt`;
  about = place ? `The last ${size(TAIL)} of ${size(log.size)}. The download has all of it.` : "";
  note(about);
}

// One line as text and colours: SGR 30-37, 90-97 and bold are kept, other escapes are dropped.
function draw(line, text) {
  line.replaceChildren();
  const bar = text.split("\r").filter(Boolean).pop() ?? ""; // a progress bar's last state
  for (const part of bar.split(/(\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\))/)) {
    if (!part.startsWith("\x1b")) {
      const span = document.createElement("span");
      span.className = style.join(" ");
      span.append(seen(part, "\t"));
      if (part) line.append(span);
    } else if (part.endsWith("m")) {
      for (const code of part.slice(2, -1).split(";").map(Number)) {
        if (code === 0) style = [];
        else if (code === 1) style = [...style.filter((name) => name !== "bold"), "bold"];
        else if ((code >= 30 && code <= 39) || (code >= 90 && code <= 97)) {
          style = style.filter((name) => name === "bold");
          if (code % 10 <= 7) style.push(`c${code % 10}`);
        }
      }
    }
  }
}

function write(text) {
  if (partial && text) [text, partial] = [text.slice(text.indexOf("\n") + 1), false];
  const box = $("lines");
  const lines = (pending + text).replaceAll("\r\n", "\n").split("\n");
  pending = lines.pop();
  pending = pending.slice(Math.max(0, pending.lastIndexOf("\r", pending.length - 2)));
  if (pending.length > MOST_OF_A_LINE) [pending] = ["", lines.push(pending)];
  let last = box.lastChild;
  for (const line of lines) {
    draw(last, line);
    last = box.appendChild(document.createElement("div"));
  }
  const before = style;
  draw(last, pending);
  style = before; // the open line is drawn again once more of it is there
  while (box.childNodes.length > MOST_LINES) box.firstChild.remove();
  if ($("follow").checked) box.scrollTop = box.scrollHeight;
}

function choose(log) {
  select(log);
  if (!running) follow();
}

// Which task is chosen from a list, where there are several, and which of its logs by buttons.
function tabs(logs) {
  const names = [...new Set(logs.map((log) => log.task))];
  const list = $("tasks");
  list.hidden = names.length < 2;
  if (list.options.length !== names.length) list.replaceChildren(...names.map((name) => new Option(name)));
  const [task, stream] = (chosen ?? "").split("/");
  if (document.activeElement !== list) list.value = task;
  list.onchange = () => {
    const its = logs.filter((log) => log.task === list.value);
    choose(its.find((log) => log.stream === stream) ?? its[0]);
    tabs(logs);
  };
  const mine = logs.filter((log) => log.task === task);
  if ($("logs").childNodes.length !== mine.length) {
    $("logs").replaceChildren(...mine.map(() => document.createElement("button")));
  }
  mine.forEach((log, at) => {
    const button = $("logs").childNodes[at];
    button.textContent = `${log.stream} · ${size(log.size)}`;
    button.ariaPressed = String(stream === log.stream);
    button.onclick = () => choose(log);
  });
}

async function read(log) {
  if (log.size < place || log.size - place > 16 * TAIL) select(log); // cut, or too fast to follow
  while (place < log.size) {
    const mine = choice;
    const answer = await fetch(`logs/${chosen}?offset=${place}&limit=${TAIL}`);
    if (!answer.ok) throw new Error(await answer.text());
    const bytes = await answer.arrayBuffer();
    if (mine !== choice || !bytes.byteLength) return;
    place += bytes.byteLength;
    write(decoder.decode(bytes, { stream: true }));
  }
}

async function step() {
  const answer = await fetch("state");
  if (!answer.ok) throw new Error(await answer.text());
  const job = await answer.json();
  document.title = `${job.name} log`;
  [$("name").textContent, $("job").textContent] = [job.name, job.job_id];
  $("state").textContent = job.cancelling && !job.final ? "cancelling…" : job.state;
  const log = job.logs.find((each) => `${each.task}/${each.stream}` === chosen);
  if (log) await read(log);
  else if (job.logs.length) {
    select(job.logs.find((each) => each.size) ?? job.logs[0]);
    return step();
  }
  tabs(job.logs);
  return job.final;
}

async function follow() {
  running = true;
  try {
    running = !(await step());
    note(about || ($("lines").textContent ? "" : `Nothing written${running ? " yet" : ""}`));
    if (running) setTimeout(follow, EVERY);
  } catch (error) {
    const why = error.message.trim();
    note(`Not live any more (${why}). Has the notebook's kernel ended? The log stays in the job's folder.`);
    setTimeout(follow, 10 * EVERY);
  }
}
$("follow").onchange = () => write("");
follow();
