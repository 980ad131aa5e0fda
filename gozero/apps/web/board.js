// A board of Go for browsers and notebooks: plain JavaScript, SVG, no dependencies, no build.
//
//   mount(element, {send, listen})   the web page: `send(message)`, `listen(function of a message)`
//   export default {render}          a notebook's widget (anywidget), over its model
//
// It knows no rules: gozero/apps/web/session.py keeps the game, checks moves, and sends stones and
// analyses; the messages are described there. Points are numbered row-major from the top left, and
// size * size is the pass; wins (0 to 1) and leads (points) are Black's.

const LETTERS = "ABCDEFGHJKLMNOPQRSTUVWXYZ";
const CELL = 100;
const COLOURS = ["Black", "White"];

const STYLE = `
:host { all: initial; display: block; container-type: inline-size; color-scheme: light dark;
  font: 15px/1.45 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif;
  --paper: #f6f5f2; --card: #ffffff; --ink: #22211f; --soft: #6b6862; --line: #dedbd4;
  --blue: #0072b2; --accent: #0072b2; --on-accent: #ffffff; --bad: #a8321f; --bad-paper: #fbe9e5;
  --wood: #e6c58a; --wood-dark: #d8b274; --grid: #5b4526; }
@media (prefers-color-scheme: dark) { :host {
  --paper: #17181a; --card: #212327; --ink: #e8e6e1; --soft: #a19d95; --line: #383b41;
  --accent: #3c9bd6; --on-accent: #0c1116; --bad: #ff9d8a; --bad-paper: #3b2320;
  --wood: #c39f62; --wood-dark: #b18c50; --grid: #33250f; } }
* { box-sizing: border-box; }
.all { color: var(--ink); background: var(--paper); padding: 12px 16px 20px; outline: none; }
.wide { max-width: 1240px; margin: 0 auto; }
header { display: flex; flex-wrap: wrap; gap: 8px; align-items: center; margin-bottom: 12px; }
.name { font-weight: 650; font-size: 19px; margin-right: auto; letter-spacing: -.01em; }
button, select, input { font: inherit; color: inherit; }
button { background: var(--card); border: 1px solid var(--line); border-radius: 8px; min-height: 36px;
  padding: 5px 12px; cursor: pointer; }
button:hover:not(:disabled) { border-color: var(--soft); }
button:disabled { opacity: .45; cursor: default; }
button:focus-visible, input:focus-visible, select:focus-visible, .moves li:focus-visible,
.mini:focus-visible { outline: 2px solid var(--accent); outline-offset: 1px; }
button.main { background: var(--accent); border-color: var(--accent); color: var(--on-accent);
  font-weight: 600; }
button[aria-pressed=true] { background: var(--accent); border-color: var(--accent);
  color: var(--on-accent); }
.body { display: grid; gap: 14px; grid-template-columns: minmax(0, 1fr); }
.left { min-width: 0; }
.board { width: 100%; max-width: min(100%, max(320px, calc(100vh - 190px))); margin: 0 auto; }
.board svg { display: block; width: 100%; height: auto; border-radius: 8px; user-select: none;
  box-shadow: 0 1px 2px #0003, 0 6px 22px #0002; touch-action: manipulation; }
.board.mine svg { cursor: pointer; }
.row { display: flex; flex-wrap: wrap; gap: 6px; align-items: center; justify-content: center;
  margin-top: 10px; }
.group { display: inline-flex; }
.group button { border-radius: 0; margin-left: -1px; position: relative; }
.group button:first-child { border-radius: 8px 0 0 8px; margin-left: 0; }
.group button:last-child { border-radius: 0 8px 8px 0; }
.nav button { min-width: 42px; }
.nav svg { display: block; margin: auto; }
aside > div:empty, aside.watching > .card { display: none; }
aside { display: flex; flex-direction: column; gap: 12px; min-width: 0; }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 10px 14px; }
.card h2 { font-size: 13px; font-weight: 600; color: var(--soft); margin: 0 0 6px; }
.players { display: grid; grid-template-columns: auto 1fr auto; gap: 3px 9px; align-items: center; }
.stone { width: 17px; height: 17px; border-radius: 50%; border: 1px solid #111; }
.stone.b { background: radial-gradient(circle at 35% 30%, #666, #111 70%); }
.stone.w { background: radial-gradient(circle at 35% 30%, #fff, #ddd 90%); }
.turn { font-weight: 650; }
.soft { color: var(--soft); }
.status { margin-top: 8px; padding-top: 8px; border-top: 1px solid var(--line); min-height: 30px; }
.status b { font-weight: 650; }
.busy::after { content: ""; display: inline-block; width: 11px; height: 11px; margin-left: 8px;
  border: 2px solid var(--accent); border-right-color: transparent; border-radius: 50%;
  animation: turn .9s linear infinite; vertical-align: -1px; }
@keyframes turn { to { transform: rotate(1turn); } }
@media (prefers-reduced-motion: reduce) { .busy::after { animation-duration: 4s; } }
.error { background: var(--bad-paper); color: var(--bad); border-radius: 8px; padding: 8px 12px;
  display: flex; gap: 10px; align-items: start; overflow-wrap: anywhere; }
.error button { margin-left: auto; border: 0; background: none; min-height: 0; padding: 0 4px; color: inherit; }
.wins { display: flex; height: 26px; border-radius: 6px; overflow: hidden; border: 1px solid var(--line);
  font-size: 12.5px; font-variant-numeric: tabular-nums; }
.wins > span { padding: 3px 8px; white-space: nowrap; min-width: 0; overflow: hidden; }
.wins .b { background: #16171a; color: #fff; } .wins .w { background: #f7f7f5; color: #111; flex: 1; }
.wins > span { display: flex; justify-content: space-between; } .wins > :empty, .wins > .b:not(:has(*)), .wins > .w:not(:has(*)) { padding: 0; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; font-size: 14px; }
th { text-align: right; font-weight: 500; color: var(--soft); font-size: 12.5px; padding: 2px 6px; }
td { text-align: right; padding: 3px 6px; border-top: 1px solid var(--line); }
th:first-child, td:first-child { text-align: left; padding-left: 2px; font-weight: 600; }
tbody tr { cursor: pointer; } tbody tr:hover, tbody tr.shown { background: color-mix(in srgb, var(--accent) 13%, transparent); }
.line { display: block; color: var(--soft); font-size: 12.5px; margin-top: 6px; min-height: 18px; overflow-wrap: anywhere; }
.graph svg, .tree svg { display: block; width: 100%; height: auto; }
.graph svg { cursor: pointer; } .tree { overflow: auto; max-height: 150px; } .tree svg { width: auto; cursor: pointer; }
.moves { list-style: none; margin: 0; padding: 0; max-height: 210px; overflow: auto; }
.moves li { padding: 4px 6px; border-top: 1px solid var(--line); cursor: pointer; display: flex; gap: 8px; font-size: 14px; }
.moves li:first-child { border-top: 0; } .moves li:hover { background: color-mix(in srgb, var(--accent) 13%, transparent); }
.moves .lost { margin-left: auto; color: var(--bad); font-variant-numeric: tabular-nums; white-space: nowrap; }
.comment { white-space: pre-wrap; overflow-wrap: anywhere; max-height: 140px; overflow: auto; }
dialog { border: 1px solid var(--line); border-radius: 12px; background: var(--card); color: var(--ink);
  padding: 18px 20px; max-width: min(94vw, 380px); width: 100%; }
dialog::backdrop { background: #0007; }
dialog h2 { margin: 0 0 12px; font-size: 17px; }
form .field { display: grid; grid-template-columns: 7.2em 1fr; align-items: center; gap: 8px; margin: 8px 0; }
select, input { background: var(--paper); border: 1px solid var(--line); border-radius: 7px; padding: 6px 8px; min-height: 36px; width: 100%; }
form .row { justify-content: flex-end; margin-top: 14px; }
.grid { display: grid; grid-template-columns: repeat(auto-fill, minmax(130px, 1fr)); gap: 10px; }
.mini { border: 1px solid var(--line); border-radius: 8px; background: var(--card); padding: 5px; cursor: pointer; font-size: 12.5px; text-align: center; min-width: 0; }
.mini svg { display: block; width: 100%; border-radius: 4px; margin-bottom: 3px; }
.mini span { display: block; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.hidden { display: none !important; }
.said { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
@container (min-width: 860px) {
  .body { grid-template-columns: minmax(0, 1fr) 350px; }
}
@container (max-width: 520px) {
  .all { padding: 8px 8px 16px; font-size: 14px; } button { padding: 5px 8px; } .long { display: none; }
  header { gap: 6px; } .nav button { min-width: 38px; }
}
`;

// --- Elements. Text is set as text: nothing from a file or a player is parsed as HTML. ---

function element(space, tag, attributes, children) {
  const made = space ? document.createElementNS(space, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return made;
}
const h = (tag, attributes = {}, ...children) => element(null, tag, attributes, children);
const s = (tag, attributes = {}, ...children) =>
  element("http://www.w3.org/2000/svg", tag, attributes, children);
const text = (x, y, words, size, fill, more = {}) =>
  s("text", { x, y, fill, "font-size": size, "text-anchor": "middle",
    "dominant-baseline": "central", "pointer-events": "none", ...more }, String(words));

// --- Words. ---

const vertex = (size, at) =>
  at === size * size ? "pass" : LETTERS[at % size] + (size - Math.floor(at / size));
const percent = (share, digits = 1) => `${(100 * share).toFixed(digits)}%`;
const leadText = (lead) => `${lead >= 0 ? "B" : "W"}+${Math.abs(lead).toFixed(1)}`;
const short = (count) =>
  count >= 1e6 ? `${(count / 1e6).toFixed(1)}M` : count >= 1e4 ? `${Math.round(count / 1e3)}k`
    : count >= 1e3 ? `${(count / 1e3).toFixed(1)}k` : String(count);

// --- The board: an SVG that `draw` keeps up to date. ---

function starPoints(size) {
  if (size < 7) return size % 2 ? [((size * size) - 1) / 2] : [];
  const edge = size < 13 ? 2 : 3, lines = [edge, size - 1 - edge];
  const middle = (size - 1) / 2;
  const points = lines.flatMap((row) => lines.map((col) => [row, col]));
  if (size % 2) points.push([middle, middle]);
  if (size % 2 && size >= 13)
    points.push(...lines.flatMap((line) => [[line, middle], [middle, line]]));
  return points.map(([row, col]) => row * size + col);
}

let boards = 0;

export function makeBoard({ onPoint = () => {}, onHover = () => {}, coordinates = true } = {}) {
  const svg = s("svg", { role: "img", "font-family": "system-ui, sans-serif" });
  const id = `board-${++boards}`;
  const margin = coordinates ? 0.95 * CELL : 0.62 * CELL;
  let size = 0, layer = null, shown = {};

  const place = (at) => [margin + (at % size) * CELL, margin + Math.floor(at / size) * CELL];

  function build() {
    const width = 2 * margin + (size - 1) * CELL;
    svg.setAttribute("viewBox", `0 0 ${width} ${width}`);
    const gradient = (name, stops) =>
      s("radialGradient", { id: `${id}-${name}`, cx: 0.36, cy: 0.32, r: 0.75 },
        stops.map(([offset, colour]) => s("stop", { offset, "stop-color": colour })));
    const wood = s("linearGradient", { id: `${id}-wood`, x1: 0, y1: 0, x2: 1, y2: 1 },
      s("stop", { offset: 0, style: "stop-color: var(--wood, #e6c58a)" }),
      s("stop", { offset: 1, style: "stop-color: var(--wood-dark, #d8b274)" }));
    const lines = [];
    const far = margin + (size - 1) * CELL;
    for (let i = 0; i < size; i++) {
      const at = margin + i * CELL;
      lines.push(`M${margin} ${at}H${far}M${at} ${margin}V${far}`);
    }
    layer = s("g");
    svg.replaceChildren(
      s("defs", {}, wood, gradient("b", [[0, "#6a6a6a"], [0.5, "#262626"], [1, "#0b0b0b"]]),
        gradient("w", [[0, "#ffffff"], [0.65, "#f1f0ec"], [1, "#cfcdc6"]])),
      s("rect", { width, height: width, fill: `url(#${id}-wood)` }),
      s("path", { d: lines.join(""), style: "stroke: var(--grid, #5b4526)", "stroke-width": 2.6,
        "stroke-linecap": "square", fill: "none" }),
      ...starPoints(size).map((at) => {
        const [cx, cy] = place(at);
        return s("circle", { cx, cy, r: 9.5, style: "fill: var(--grid, #5b4526)" });
      }),
      ...(coordinates ? labels(far) : []),
      layer,
    );
  }

  function labels(far) {
    const made = [], look = { style: "fill: var(--grid, #5b4526)", "font-weight": 500 };
    const put = (x, y, words) => made.push(text(x, y, words, 31, null, look));
    for (let i = 0; i < size; i++) {
      const at = margin + i * CELL;
      put(at, margin * 0.4, LETTERS[i]); put(at, far + margin * 0.6, LETTERS[i]);
      put(margin * 0.4, at, size - i); put(far + margin * 0.6, at, size - i);
    }
    return made;
  }

  function stone(at, colour, opacity = 1) {
    const [cx, cy] = place(at), name = "bw"[colour];
    return s("g", { opacity, class: `stone-${name}`, "data-at": at },
      s("circle", { cx: cx + 3, cy: cy + 5, r: 46.5, fill: "#0004" }),
      s("circle", { cx, cy, r: 47, fill: `url(#${id}-${name})`,
        stroke: colour ? "#8d8a83" : "#000", "stroke-width": 1.5 }));
  }

  /* What to draw: {size, stones, last, numbers, policy, ownership, moves, best, line, turn, crossed,
     ghost}; moves come from an analysis, line has the actions that follow, by `turn` first. */
  function draw(wanted) {
    if (wanted.size !== size) { size = wanted.size; build(); }
    shown = wanted;
    const { stones, turn = 0, last = -1 } = wanted;
    const parts = [], line = wanted.line || [], hides = new Set(line);
    const ink = (at) => (stones[at] === "X" ? "#fff" : "#111");
    if (wanted.policy) {
      const most = Math.max(...wanted.policy.slice(0, size * size), 1e-9);
      wanted.policy.slice(0, size * size).forEach((share, at) => {
        if (share < 0.005 || stones[at] !== ".") return;
        const [x, y] = place(at), strength = share / most;
        parts.push(s("rect", { x: x - 46, y: y - 46, width: 92, height: 92, rx: 10,
          fill: "#0072b2", "fill-opacity": 0.15 + 0.8 * strength, class: "policy" }));
        parts.push(text(x, y, percent(share, share < 0.095 ? 1 : 0), 29,
          strength > 0.4 ? "#fff" : "#111"));
      });
    }
    for (let at = 0; at < size * size; at++)
      if (stones[at] !== ".") parts.push(stone(at, stones[at] === "X" ? 0 : 1));
    if (wanted.ownership) wanted.ownership.forEach((owner, at) => {
      if (Math.abs(owner) < 0.1) return;
      const [x, y] = place(at), side = 56 * Math.sqrt(Math.min(1, Math.abs(owner)));
      parts.push(s("rect", { x: x - side / 2, y: y - side / 2, width: side, height: side,
        fill: owner > 0 ? "#111" : "#fbfbfb", stroke: owner > 0 ? "#fff8" : "#0009",
        "stroke-width": 2, class: "owner" }));
    });
    if (wanted.moves && !line.length) {
      const most = Math.max(...wanted.moves.map((move) => move.visits), 1);
      [...wanted.moves].reverse().forEach((move) => {
        if (move.at === size * size || stones[move.at] !== ".") return;
        const [cx, cy] = place(move.at), strength = move.visits / most;
        const win = turn ? 1 - move.win : move.win;
        const colour = strength > 0.35 ? "#fff" : "#0b1c28";
        parts.push(s("circle", { cx, cy, r: 45, fill: strength > 0.35 ? "#0072b2" : "#8cc4e4",
          "fill-opacity": strength > 0.35 ? 0.55 + 0.45 * strength : 0.72, class: "visits",
          stroke: move === wanted.moves[0] ? "#fff" : "none", "stroke-width": 5 }));
        parts.push(text(cx, cy - 13, percent(win, 0), win > 0.995 ? 27 : 31, colour, { "font-weight": 650 }));
        parts.push(text(cx, cy + 20, short(move.visits), 25, colour));
      });
    }
    if (wanted.numbers) wanted.numbers.forEach((number, at) => {
      if (!number || stones[at] === ".") return;
      const [x, y] = place(at);
      parts.push(text(x, y, number, number > 99 ? 34 : 40, at === last ? "#e2574c" : ink(at),
        { "font-weight": at === last ? 700 : 500 }));
    });
    if (last >= 0 && last < size * size && !wanted.numbers && stones[last] !== ".") {
      const [cx, cy] = place(last);
      parts.push(s("circle", { cx, cy, r: 22, fill: "none", class: "last", stroke: ink(last),
        "stroke-width": 6.5 }));
    }
    line.forEach((at, i) => {
      if (at === size * size || line.indexOf(at) < i) return;
      const [x, y] = place(at), colour = (turn + i) % 2;
      parts.push(stone(at, colour, 0.82));
      parts.push(text(x, y, i + 1, 38, colour ? "#111" : "#fff", { "font-weight": 600 }));
    });
    if (wanted.crossed >= 0 && wanted.crossed < size * size && !hides.has(wanted.crossed)) {
      const [x, y] = place(wanted.crossed);
      parts.push(s("path", { d: `M${x - 22} ${y - 22}l44 44m0 -44l-44 44`, stroke: "#c0392b",
        "stroke-width": 10, "stroke-linecap": "round", class: "cross" }));
    }
    if (wanted.ghost >= 0 && stones[wanted.ghost] === ".")
      parts.push(stone(wanted.ghost, turn, 0.45));
    layer.replaceChildren(...parts);
    svg.setAttribute("aria-label", wanted.label || `Go board, ${size} by ${size}`);
  }

  function pointOf(event) {
    const matrix = svg.getScreenCTM();
    if (!matrix || !size) return -1;
    const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(matrix.inverse());
    const col = Math.round((point.x - margin) / CELL), row = Math.round((point.y - margin) / CELL);
    const inside = row >= 0 && col >= 0 && row < size && col < size;
    return inside ? row * size + col : -1;
  }

  svg.addEventListener("click", (event) => {
    const at = pointOf(event);
    if (at >= 0) onPoint(at);
  });
  svg.addEventListener("pointermove", (event) => {
    if (event.pointerType === "mouse") onHover(pointOf(event));
  });
  svg.addEventListener("pointerleave", () => onHover(-1));
  return { svg, draw, place: (at) => place(at), get shown() { return shown; } };
}

// --- Curves of wins, and the tree of variations. ---

function winGraph(line, analyses, at, mistakes) {
  const width = 640, height = 190, left = 56, right = 12, top = 10, bottom = 26;
  const across = (width - left - right) / Math.max(1, line.length - 1);
  const x = (i) => left + across * i, y = (win) => top + (height - top - bottom) * (1 - win);
  const svg = s("svg", { viewBox: `0 0 ${width} ${height}`, role: "img",
    "aria-label": "Black's wins after each move" });
  for (const level of [0, 0.5, 1]) {
    svg.append(s("path", { d: `M${left} ${y(level)}H${width - right}`, style: "stroke: var(--line)",
      "stroke-width": 1.5 }),
      text(left - 6, y(level), percent(level, 0), 17, null,
        { style: "fill: var(--soft)", "text-anchor": "end" }));
  }
  const known = line.map((node, i) => [i, analyses.get(node)]).filter(([, one]) => one);
  const step = [1, 2, 5, 10, 20, 50, 100, 200].find((n) => line.length / n <= 9) || 500;
  for (let i = 0; i < line.length; i += step)
    svg.append(text(x(i), height - 9, i, 17, null, { style: "fill: var(--soft)" }));
  if (known.length) {
    const points = known.map(([i, one]) => `${x(i).toFixed(1)},${y(one.win).toFixed(1)}`);
    const area = `${x(known[0][0])},${y(0)} ${points.join(" ")} ${x(known.at(-1)[0])},${y(0)}`;
    svg.append(s("polygon", { points: area, style: "fill: var(--accent)", opacity: 0.13 }),
      s("polyline", { points: points.join(" "), fill: "none", "stroke-width": 3,
        "stroke-linejoin": "round", style: "stroke: var(--accent)" }));
    if (known.length === 1)
      svg.append(s("circle", { cx: x(known[0][0]), cy: y(known[0][1].win), r: 4,
        style: "fill: var(--accent)" }));
  }
  const here = line.indexOf(at);
  if (here >= 0)
    svg.append(s("path", { d: `M${x(here)} ${top}V${height - bottom}`, "stroke-width": 2,
      style: "stroke: var(--ink)", "stroke-dasharray": "4 4" }));
  for (const one of mistakes)
    svg.append(s("circle", { cx: x(one.number), cy: y(analyses.get(line[one.number]).win), r: 6,
      style: "fill: var(--bad)" }));
  return { svg, at: (share) =>
    Math.max(0, Math.min(line.length - 1, Math.round((share * width - left) / across))) };
}

function layOut(nodes) {
  // The lane of each node: first children stay in their parent's, others take the next free one.
  const depth = [0], lane = [0], children = nodes.map(() => []), used = [];
  nodes.forEach(([parent], i) => { if (i) children[parent].push(i); });
  const stack = [0];
  while (stack.length) {
    const i = stack.pop();
    const [parent] = nodes[i];
    if (i) {
      depth[i] = depth[parent] + 1;
      if (children[parent][0] === i) lane[i] = lane[parent];
      else {
        let end = depth[i], last = i;
        while (children[last].length) { last = children[last][0]; end++; }
        lane[i] = lane[parent] + 1;
        while ((used[lane[i]] || []).some(([from, to]) => from <= end && to >= depth[i] - 1))
          lane[i]++;
      }
    }
    if (!i || children[parent][0] !== i) {
      let end = depth[i], last = i;
      while (children[last].length) { last = children[last][0]; end++; }
      (used[lane[i]] ||= []).push([depth[i], end]);
    }
    stack.push(...children[i].slice().reverse().filter((child) => child !== children[i][0]));
    if (children[i].length) stack.push(children[i][0]);
  }
  return { depth, lane };
}

function treeGraph(nodes, at, goTo) {
  const { depth, lane } = layOut(nodes), gap = 22;
  const x = (i) => 14 + gap * depth[i], y = (i) => 14 + gap * lane[i];
  const width = 28 + gap * Math.max(...depth), height = 28 + gap * Math.max(...lane);
  const svg = s("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img",
    "aria-label": "The moves and variations" });
  nodes.forEach(([parent], i) => {
    if (i) svg.append(s("path", { d: `M${x(parent)} ${y(parent)}L${x(i)} ${y(i)}`,
      style: "stroke: var(--soft)", "stroke-width": 1.5 }));
  });
  nodes.forEach(([, colour], i) => {
    const fill = i === 0 ? "#8a8780" : colour ? "#fbfbfb" : "#111";
    svg.append(s("circle", { cx: x(i), cy: y(i), r: i === at ? 8.5 : 6.5, fill, "data-node": i,
      style: i === at ? "stroke: var(--accent)" : "stroke: var(--soft)",
      "stroke-width": i === at ? 4 : 1.2 }));
  });
  svg.addEventListener("click", (event) => {
    const node = event.target.getAttribute("data-node");
    if (node !== null) goTo(Number(node));
  });
  return { svg, x: x(at) };
}

// --- The whole page: board, controls, analysis. ---

export function mount(host, { send: tell, listen }) {
  const root = host.attachShadow ? host.shadowRoot || host.attachShadow({ mode: "open" }) : host;
  const game = { size: 9, nodes: [], at: 0, stones: "", turn: 0, ended: false, hands: [true, true] };
  let analyses = new Map(), hello = null, overlay = "visits", numbers = false, analysing = false;
  let pinned = -1, hovered = -1, ghost = -1, busy = { game: "", analysis: "" }, over = null;
  let reviewed = false, due = false, watching = null, shownMistake = -1;
  let going = -1;  // the node that was asked for and is not shown yet
  function send(message) {
    going = message.do === "goto" ? message.node : -1;
    tell(message);
  }

  const board = makeBoard({
    onPoint: (at) => play(at),
    onHover: (at) => {
      const mine = !game.engine && !game.ended;
      if (ghost !== (mine ? at : -1)) { ghost = mine ? at : -1; hovered = candidate(at); drawBoard(); drawLine(); }
    },
  });
  const candidate = (at) => {
    const known = analyses.get(game.at);
    return overlay === "visits" && known && at >= 0 ? known.moves.findIndex((m) => m.at === at) : -1;
  };

  // Controls.
  const button = (words, action, more = {}) =>
    h("button", { type: "button", onclick: action, ...more }, words);
  const file = h("input", { type: "file", accept: ".sgf,application/x-go-sgf", class: "hidden",
    onchange: () => {
      const [chosen] = file.files;
      file.value = "";
      if (chosen) load(chosen);
    } });
  async function load(chosen) {
    const tooLong = () => fails(`${chosen.name} is larger than 1 MB`);
    if (chosen.size > 1e6) return tooLong();
    const message = { do: "load", sgf: decode(new Uint8Array(await chosen.arrayBuffer())) };
    if (JSON.stringify(message).length > 1e6) return tooLong();  // a server would end the session
    watch(null);
    send(message);
  }
  function decode(bytes) {  // by the file's CA, else as UTF-8
    const [, named] = /CA\s*\[\s*([\w:.-]+)\s*\]/.exec(new TextDecoder("latin1").decode(bytes)) || [];
    for (const name of [named, "utf-8"].filter(Boolean)) {
      try { return new TextDecoder(name, { fatal: true }).decode(bytes); } catch { /* the next */ }
    }
    return new TextDecoder("latin1").decode(bytes);
  }
  const long = (words) => h("span", { class: "long" }, words);
  const icon = (path) => s("svg", { viewBox: "0 0 16 16", width: 15, height: 15 },
    s("path", { d: path, fill: "currentColor" }));
  const first = button(icon("M2 2h2v12H2zM14 2v12L5 8z"), () => goTo(0), { "aria-label": "To the beginning" });
  const back = button(icon("M12 2v12L3 8z"), () => step(-1), { "aria-label": "A move back" });
  const next = button(icon("M4 2v12l9-6z"), () => step(1), { "aria-label": "A move on" });
  const end = button(icon("M12 2h2v12h-2zM2 2v12l9-6z"), () => goTo(line(here()).at(-1)), { "aria-label": "To the end" });
  const pass = button("Pass", () => play(game.size ** 2));
  const undo = button("Undo", () => send({ do: "undo" }));
  const resign = button("Resign", () => send({ do: "resign" }));
  const move = button("Engine's move", () => send({ do: "move" }),
    { title: "The engine plays for the player to move" });
  const pause = button("Pause", () => send({ do: "pause" }));
  const analyse = button("Analysis", () => setAnalysing(!analysing), { "aria-pressed": "false" });
  const review = button(["Review", long(" the game")], () => { reviewed = true; setOverlay("visits"); send({ do: "review" }); });
  const layers = Object.entries({ none: "Board", visits: "Moves", policy: "Policy", ownership: "Territory" })
    .map(([name, words]) => [name, button(words, () => setOverlay(name), { "data-layer": name })]);
  const numbered = button("1 2 3", () => { numbers = !numbers; draw(); },
    { "aria-pressed": "false", title: "Numbers on stones", "aria-label": "Numbers on stones" });
  const watchButton = button("Watch", () => openWatch());

  // Status and analysis.
  const players = h("div", { class: "players" });
  const status = h("div", { class: "status" });
  const said = h("div", { class: "said", "aria-live": "polite" });
  const errors = h("div");
  const wins = h("div", { class: "wins", title: "How often Black wins, and the expected lead" });
  const table = h("table");
  const lineText = h("span", { class: "line" });
  const found = h("div", { class: "card found" }, h("h2", {}, "Analysis"), wins, table, lineText);
  const graph = h("div", { class: "graph" });
  const graphCard = h("div", { class: "card" }, h("h2", {}, "Black's wins"), graph);
  const mistakes = h("ul", { class: "moves" });
  const mistakesCard = h("div", { class: "card mistakes" }, h("h2", {}, "Greatest mistakes"), mistakes);
  const tree = h("div", { class: "tree" });
  const treeCard = h("div", { class: "card" }, h("h2", {}, "Variations"), tree);
  const comment = h("div", { class: "card comment" });
  const boardBox = h("div", { class: "board" }, board.svg);
  const playing = h("div", {}, boardBox,
    h("div", { class: "row" }, h("span", { class: "group nav" }, first, back, next, end),
      pass, undo, resign, pause),
    h("div", { class: "row" }, analyse, h("span", { class: "group" }, layers.map(([, b]) => b)), numbered, review, move));
  const grid = h("div", { class: "grid" });
  const gridTitle = h("h2", {});
  const watched = h("div", { class: "card hidden" },
    h("div", { class: "row", style: "justify-content: space-between; margin: 0 0 10px" }, gridTitle,
      button("Back to the board", () => watch(null))), grid);
  const newDialog = h("dialog", { "aria-label": "New game" });
  const watchDialog = h("dialog", { "aria-label": "Watch games" });
  const aside = h("aside", {}, errors, h("div", { class: "card" }, players, status), comment, found,
    graphCard, mistakesCard, treeCard, said);
  const everything = h("div", { class: "all", tabindex: "-1", onkeydown: onKey },
    h("div", { class: "wide" },
      h("header", {}, h("span", { class: "name" }, "gozero"),
        button(["New", long(" game")], () => openNew(), { class: "main", "aria-label": "New game" }),
        button(["Open", long(" SGF")], () => file.click(), { "aria-label": "Open SGF" }),
        button(["Save", long(" SGF")], () => send({ do: "save" }), { "aria-label": "Save SGF" }),
        watchButton, file),
      h("div", { class: "body" }, h("div", { class: "left" }, playing, watched), aside)),
    newDialog, watchDialog);
  everything.addEventListener("dragover", (event) => event.preventDefault());
  everything.addEventListener("drop", (event) => {
    event.preventDefault();
    const [dropped] = event.dataTransfer.files;
    if (dropped) load(dropped);
  });
  root.replaceChildren(h("style", {}, STYLE), everything);

  // Messages to the session.
  function play(at) {
    if (game.engine || game.ended || !game.nodes.length) return;
    if (at < game.size ** 2 && game.stones[at] !== ".") return;
    ghost = hovered = pinned = -1;
    send({ do: "play", at });
  }
  const here = () => going < 0 ? game.at : going;  // keys come faster than answers
  function goTo(node) {
    if (node !== here()) send({ do: "goto", node });
  }
  function step(by) {
    const moves = line(here()), next = moves.indexOf(here()) + by;
    if (next >= 0 && next < moves.length) goTo(moves[next]);
  }
  function setAnalysing(on) {
    analysing = on;
    if (on && overlay === "none") overlay = "visits";
    send({ do: "analyse", on });
    draw();
  }
  function setOverlay(name) {
    overlay = name;
    pinned = hovered = -1;
    if (name !== "none" && !analysing && !analyses.has(game.at)) setAnalysing(true);
    draw();
  }
  function fails(words) {
    errors.replaceChildren(h("div", { class: "error", role: "alert" }, words,
      button("✕", () => errors.replaceChildren(), { "aria-label": "Close this message" })));
  }
  function onKey(event) {
    if (event.target.closest("dialog, input, select")) return;
    const done = { ArrowLeft: () => step(-1), ArrowRight: () => step(1), Home: () => goTo(0),
      End: () => goTo(line(here()).at(-1)), p: () => play(game.size ** 2), u: () => send({ do: "undo" }),
      a: () => setAnalysing(!analysing) }[event.key];
    if (done && !event.ctrlKey && !event.metaKey && !event.altKey) { event.preventDefault(); done(); }
  }

  // Lines of play.
  const pathTo = (node) => {
    const path = [];
    for (let i = node; i >= 0; i = game.nodes[i][0]) path.unshift(i);
    return path;
  };
  function line(at = game.at) {
    const path = game.nodes.length ? pathTo(at) : [0];
    const firstChild = new Map(), retracted = new Set(game.retracted);
    game.nodes.forEach(([parent], i) => {  // one that was taken back only if there is no other
      const known = firstChild.get(parent);
      if (known === undefined || (retracted.has(known) && !retracted.has(i))) firstChild.set(parent, i);
    });
    while (firstChild.has(path.at(-1))) path.push(firstChild.get(path.at(-1)));
    return path;
  }
  function findMistakes(moves) {
    const made = [];
    for (let i = 1; i < moves.length; i++) {
      const before = analyses.get(moves[i - 1]), after = analyses.get(moves[i]);
      if (!before || !after || !before.moves.length) continue;
      const [, colour, at] = game.nodes[moves[i]];
      const lost = (before.win - after.win) * (colour ? -1 : 1);
      if (before.moves[0].at !== at && lost >= 0.03)
        made.push({ number: i, node: moves[i], colour, at, lost, better: before.moves[0].at });
    }
    return made.sort((a, b) => b.lost - a.lost).slice(0, 8);
  }

  // Dialogs.
  function select(name, options, value) {
    return h("select", { name }, options.map(([key, words]) =>
      h("option", { value: key, selected: key === value }, words)));
  }
  const field = (words, control) => h("label", { class: "field" }, words, control);
  function dialogOf(dialog, title, fields, words, action) {
    const form = h("form", { method: "dialog", onsubmit: () => {
      errors.replaceChildren();
      action(Object.fromEntries(new FormData(form)));
    } }, h("h2", {}, title), fields,
      h("div", { class: "row" }, button("Cancel", () => dialog.close()),
        h("button", { class: "main", type: "submit" }, words)));
    dialog.replaceChildren(form);
    dialog.showModal();
  }
  const playerNames = (withYou) => [...(withYou ? [["you", "You"]] : []),
    ...hello.players.map((name) => [name, name === "flags" ? hello.about : name])];
  function openNew() {
    const [least, most] = hello.sizes;
    const [black, white] = game.chosen || ["you", hello.player];
    dialogOf(newDialog, "New game", [
      field("Board", h("input", { name: "size", type: "number", min: least, max: most, required: true,
        value: game.size, list: "sizes" })),
      h("datalist", { id: "sizes" }, [5, 7, 9, 13, 19].map((n) => h("option", { value: n }))),
      field("Black", select("black", playerNames(true), black)),
      field("White", select("white", playerNames(true), white)),
      field("Komi", h("input", { name: "komi", type: "number", step: 0.5, value: game.komi ?? hello.komi, required: true })),
      field("Handicap", select("handicap", [["0", "none"], ...[2, 3, 4, 5, 6, 7, 8, 9].map((n) => [String(n), `${n} stones`])], "0")),
    ], "Start", (got) => {
      game.chosen = [got.black, got.white];
      watch(null);
      send({ do: "new", size: Number(got.size), komi: Number(got.komi), black: got.black,
        white: got.white, handicap: Number(got.handicap) });
    });
  }
  function openWatch() {
    const [least, most] = hello.sizes;
    const kinds = [["selfplay", "a player against itself, many games"],
      ...(hello.folder ? [["folder", `games in ${hello.folder}`]] : [])];
    dialogOf(watchDialog, "Watch", [
      field("What", select("what", kinds, hello.folder ? "folder" : "selfplay")),
      field("Player", select("player", playerNames(false), "fast")),
      field("Board", h("input", { name: "size", type: "number", min: least, max: most, value: game.size })),
      field("Games", select("games", [["4", "4"], ["9", "9"], ["16", "16"]], "16")),
    ], "Watch", (got) => watch({ do: "watch", what: got.what, player: got.player,
      size: Number(got.size), games: Number(got.games) }));
  }
  function watch(message) {
    if (!message && !watching) return;
    watching = message;
    send(message || { do: "unwatch" });
    playing.classList.toggle("hidden", Boolean(message));
    watched.classList.toggle("hidden", !message);
    aside.classList.toggle("watching", Boolean(message));
    if (message) { gridTitle.textContent = "The games come in a moment: a search compiles first"; grid.replaceChildren(); }
    draw();
  }
  const minis = [];
  function drawGames(told) {
    if (!watching) return;
    gridTitle.textContent = told.title;
    told.games.forEach((one, i) => {
      if (!minis[i]) {
        const small = makeBoard({ coordinates: false });
        const words = h("span");
        minis[i] = { small, words, box: h("div", { class: "mini", tabindex: 0, role: "button",
          onclick: () => { send({ do: "open", game: i }); watch(null); },
          onkeydown: (event) => { if (event.key === "Enter") minis[i].box.click(); } }, small.svg, words) };
      }
      minis[i].small.draw({ size: one.size, stones: one.stones, last: one.last, label: one.name });
      minis[i].words.textContent = one.name;
      minis[i].words.title = one.name;
    });
    const boxes = minis.slice(0, told.games.length).map((mini) => mini.box);
    if (grid.children.length !== boxes.length) grid.replaceChildren(...boxes);
  }

  // Drawing.
  function draw() {
    if (due) return;
    due = true;
    requestAnimationFrame(() => { due = false; drawBoard(); drawSide(); });
  }
  function shownLine() {
    const known = analyses.get(game.at), i = hovered >= 0 ? hovered : pinned;
    return overlay === "visits" && known && known.moves[i] ? known.moves[i].line : [];
  }
  function drawBoard() {
    if (!game.stones) return;
    const known = analyses.get(game.at), node = game.nodes[game.at];
    const shown = { size: game.size, stones: game.stones, turn: game.turn, ghost,
      last: game.at ? node[2] : -1, line: shownLine() };
    if (numbers) {
      shown.numbers = new Array(game.size ** 2).fill(0);
      pathTo(game.at).forEach((i, number) => {
        const at = game.nodes[i][2];
        if (number && at < game.size ** 2) shown.numbers[at] = number;  // not a pass
      });
    }
    const wanted = known && overlay !== "none" ? { visits: "moves" }[overlay] || overlay : "";
    if (wanted) shown[wanted] = known[wanted].length ? known[wanted] : undefined;
    const mistake = reviewed && shown.line.length
      ? findMistakes(line()).find((one) => game.nodes[one.node][0] === game.at) : null;
    if (mistake) shown.crossed = mistake.at;
    shown.label = `${game.size} by ${game.size} board, ${COLOURS[game.turn]} to play`;
    board.draw(shown);
    boardBox.classList.toggle("mine", !game.engine && !game.ended);
  }
  function drawSide() {
    if (!game.stones) return status.replaceChildren(h("span", { class: "busy soft" }, busy.game || "connecting"));
    drawPlayers();
    const moves = line(), known = analyses.get(game.at), here = moves.indexOf(game.at);
    first.disabled = back.disabled = here <= 0;
    next.disabled = end.disabled = here === moves.length - 1;
    pass.disabled = game.engine || game.ended;
    resign.disabled = game.engine || game.ended;
    undo.disabled = game.at === 0;
    const match = !game.hands[0] && !game.hands[1];
    move.textContent = match ? "Play on" : "Engine's move";
    move.disabled = game.engine || game.ended;
    pause.classList.toggle("hidden", !match); pause.disabled = !game.engine;
    resign.classList.toggle("hidden", match);
    for (const [name, one] of layers) one.setAttribute("aria-pressed", String(overlay === name));
    analyse.setAttribute("aria-pressed", String(analysing));
    numbered.setAttribute("aria-pressed", String(numbers));
    review.disabled = moves.length < 2;
    const words = game.comments?.[game.at] || (game.at === 0 ? game.comment : "");
    comment.textContent = words || "";
    comment.classList.toggle("hidden", !words);
    drawFound(known);
    const lost = reviewed ? findMistakes(moves) : [];
    const count = moves.filter((node) => analyses.has(node)).length;
    graphCard.classList.toggle("hidden", count === 0);
    if (count) {
      const made = winGraph(moves, analyses, game.at, lost);
      made.svg.addEventListener("click", (event) => {
        const box = made.svg.getBoundingClientRect();
        goTo(moves[made.at((event.clientX - box.left) / box.width)]);
      });
      graph.replaceChildren(made.svg);
    }
    mistakesCard.classList.toggle("hidden", !lost.length);
    mistakes.replaceChildren(...lost.map((one) => {
      const before = game.nodes[one.node][0];
      const show = () => {
        setOverlay("visits");
        if (before === game.at) pinned = 0;
        else { shownMistake = before; goTo(before); }
      };
      return h("li", { tabindex: 0, role: "button", onclick: show,
        onkeydown: (event) => { if (event.key === "Enter") show(); } },
        h("span", {}, `${one.number}. ${COLOURS[one.colour]} ${vertex(game.size, one.at)}`),
        h("span", { class: "soft" }, `better ${vertex(game.size, one.better)}`),
        h("span", { class: "lost" }, `−${percent(one.lost)}`));
    }));
    const split = game.nodes.length > moves.length;
    treeCard.classList.toggle("hidden", !split);
    if (split && game.nodes.length < 3000) {
      const made = treeGraph(game.nodes, game.at, goTo), { scrollLeft } = tree;
      tree.replaceChildren(made.svg);
      tree.scrollLeft = Math.abs(made.x - scrollLeft - 150) > 130 ? made.x - 150 : scrollLeft;
    }
  }
  function drawPlayers() {
    const names = [game.black || "Black", game.white || "White"];
    const show = (name) => (name === "flags" ? hello.about : name === "you" ? "You" : name);
    players.replaceChildren(...[0, 1].flatMap((i) => [
      h("span", { class: `stone ${"bw"[i]}` }),
      h("span", { class: !game.ended && game.turn === i ? "turn" : "" }, show(names[i])),
      h("span", { class: "soft" }, i ? `komi ${game.komi}` : `${game.size}×${game.size}`),
    ]));
    const number = pathTo(game.at).length - 1, node = game.nodes[game.at];
    const played = number ? `Move ${number}, ${COLOURS[node[1]]} ${vertex(game.size, node[2])}. ` : "";
    const result = game.result || (game.at === game.last ? game.recorded : "");
    const ended = game.ended || (result && result !== "?");
    const words = over || busy.game || (ended ? "" : `${COLOURS[game.turn]} to play.`);
    status.replaceChildren(played, ...(ended ? [h("b", {}, resultText(result))] : []), " ",
      h("span", { class: busy.game && !over ? "busy soft" : "soft" }, words),
      busy.analysis ? h("div", { class: "busy soft" }, `Analysis: ${busy.analysis}`) : "");
    const aloud = played + (ended ? resultText(result) : `${COLOURS[game.turn]} to play.`);
    if (said.textContent !== aloud) said.textContent = aloud;
  }
  function resultText(result) {
    const [winner, by] = result.split("+");
    if (!by) return result === "0" || result === "Draw" ? "A draw." : result === "?" ? "" : result;
    const name = { B: "Black", W: "White" }[winner] || winner;
    const how = { R: "resignation", Resign: "resignation", T: "time", Time: "time", F: "forfeit" }[by];
    return `${name} wins by ${how || `${by} points`}.`;
  }
  function drawFound(known) {
    found.classList.toggle("hidden", !known);
    if (!known) return;
    const share = Math.max(0.02, Math.min(0.98, known.win)), wide = known.win >= 0.5;
    const words = h("span", { class: "words" }, `Black ${percent(known.win)}`);
    const lead = h("span", { class: "words" }, leadText(known.lead));
    const black = h("span", { class: "b" }, wide ? [words, lead] : "");
    black.style.width = percent(share);
    wins.replaceChildren(black, h("span", { class: "w" }, wide ? "" : [words, lead]));
    const head = h("thead", {}, h("tr", {}, ["Move", "Wins", "Lead", "Visits", "Policy"].map((w) => h("th", {}, w))));
    const rows = known.moves.slice(0, 8).map((one, i) => {
      const row = h("tr", { class: i === pinned ? "shown" : "",
        onpointerenter: (event) => { if (event.pointerType === "mouse") { hovered = i; drawBoard(); drawLine(); } },
        onpointerleave: () => { hovered = -1; drawBoard(); drawLine(); },
        onclick: () => { pinned = pinned === i ? -1 : i; overlay = "visits"; draw(); } },
        [vertex(game.size, one.at), percent(game.turn ? 1 - one.win : one.win), leadText(one.lead),
          short(one.visits), percent(one.prior)].map((words) => h("td", {}, words)));
      return row;
    });
    table.replaceChildren(head, h("tbody", {}, rows));
    drawLine();
  }
  function drawLine() {
    const moves = shownLine(), known = analyses.get(game.at);
    lineText.textContent = moves.length ? moves.map((at) => vertex(game.size, at)).join(" ")
      : known ? `${short(known.visits)} visits; a move's row shows what is expected after it` : "";
  }

  // Messages from the session.
  const hears = {
    hello(told) {
      hello = told;
      if (!told.started) {
        game.komi = told.komi;
        send({ do: "new", size: told.size, komi: told.komi, black: "you", white: told.player, handicap: 0 });
      }
    },
    game(told) {
      analyses = new Map();
      reviewed = false;
      pinned = hovered = ghost = shownMistake = going = -1;
      Object.assign(game, told, { recorded: told.result, result: "", at: 0, stones: "" });
      errors.replaceChildren();
    },
    node: (told) => game.nodes.push(told.node),
    at(told) {
      if (told.node === going) going = -1;
      if (told.node !== game.at) {
        hovered = -1;
        pinned = told.node === shownMistake ? 0 : -1;
        shownMistake = -1;
      }
      Object.assign(game, { result: "" }, told, { at: told.node });
      if (told.engine) ghost = -1;
    },
    analysis: (told) => analyses.set(told.node, told),
    busy: (told) => { busy[told.of || "game"] = told.text; },
    error: (told) => { going = -1; fails(told.text); },
    end: (told) => { over = told.text; fails(told.text); },
    games: drawGames,
    sgf(told) {
      const link = h("a", { href: URL.createObjectURL(new Blob([told.text], { type: "application/x-go-sgf" })),
        download: "game.sgf" });
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
    },
  };
  listen((message) => {
    if (Object.hasOwn(hears, message.tell)) {
      hears[message.tell](message);
      draw();
    }
  });
  send({ do: "hello" });
  draw();
  return { destroy: () => root.replaceChildren() };
}

export default {
  render({ model, el }) {
    const place = document.createElement("div");
    el.append(place);
    const listeners = [];
    const hear = (message) => listeners.forEach((listener) => listener(message));
    model.on("msg:custom", hear);
    mount(place, { send: (message) => model.send(message), listen: (listener) => listeners.push(listener) });
    return () => model.off("msg:custom", hear);
  },
};
