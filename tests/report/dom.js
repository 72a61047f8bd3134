// A page without a browser: just enough of the DOM to run a report's script, act on it, and read what it shows.
// Usage: node dom.js report.html < actions.json; prints the texts that are asked for as JSON.
"use strict";
const fs = require("fs");

class Node {
  constructor(tag) { Object.assign(this, { tag, children: [], attributes: {}, listeners: {}, style: {}, dataset: {}, hidden: false, own: "", ...(tag === "input" ? { value: "" } : {}) }); }
  append(...nodes) { for (const node of nodes) { if (!(node instanceof Node)) throw new Error("not a node: " + node); this.children.push(node); } }
  replaceChildren(...nodes) { this.children = []; this.append(...nodes); }
  setAttribute(name, value) { this.attributes[name] = value; if (name === "value") this.value = value; }
  addEventListener(name, act) { (this.listeners[name] = this.listeners[name] || []).push(act); }
  dispatch(name, event = {}) { for (const act of this.listeners[name] || []) act({ target: this, currentTarget: this, clientX: 5, clientY: 5, ...event }); }
  get textContent() { return this.own + this.children.map((child) => child.textContent).join(" "); }
  set textContent(text) { this.children = []; this.own = String(text); }
  set innerHTML(_) { throw new Error("data must not become markup"); }
  get classList() { return { toggle: (name) => { const has = (this.attributes.class || "").includes(name); this.attributes.class = has ? "" : name; return !has; } }; }
  getBoundingClientRect() { return { x: 0, y: 0, width: 100, height: 100 }; }
  get offsetWidth() { return 10; }
  get offsetHeight() { return 10; }
  *all() { yield this; for (const child of this.children) yield* child.all(); }
}
class Select extends Node { get value() { return this.chosen !== undefined ? this.chosen : (this.children[0] || { value: "" }).value; } set value(value) { this.chosen = value; } }

const page = fs.readFileSync(process.argv[2], "ascii");
const between = (start, end) => page.slice(page.indexOf(start) + start.length, page.indexOf(end, page.indexOf(start) + start.length));
const fixed = Object.fromEntries(["data", "main", "tip", "nav", "theme"].map((id) => [id, new Node(id)]));
fixed.data.textContent = between('id="data">', "</script>");
const root = new Node("html"), heard = new Node("document");
global.document = {
  getElementById: (id) => fixed[id] || [...fixed.main.all()].find((node) => node.attributes.id === id),
  createElement: (tag) => (tag === "select" ? new Select(tag) : new Node(tag)), createElementNS: (_, tag) => new Node(tag),
  createTextNode: (text) => { const node = new Node("#text"); node.own = text; return node; },
  addEventListener: (name, act) => heard.addEventListener(name, act), documentElement: root,
};
global.window = { innerWidth: 400, innerHeight: 600, matchMedia: () => ({ matches: false }) };
const script = page.slice(page.lastIndexOf("<script>") + 8, page.lastIndexOf("</script>"));
new Function(script)();

const out = [];
const inside = (id) => (id ? document.getElementById(id) : fixed.main);
for (const action of JSON.parse(fs.readFileSync(0, "utf8"))) {
  const nodes = [...inside(action.in).all()];
  const having = (text) => nodes.filter((node) => node.listeners[action.event || "click"] && node.textContent.trim() === text);
  if (action.do === "text") out.push(inside(action.in).textContent);
  if (action.do === "click") { const [hit] = having(action.on); if (!hit) throw new Error("nothing to click: " + action.on); hit.dispatch("click"); }
  if (action.do === "type") { const node = inside(action.in); node.value = action.text; node.dispatch("input"); }
  if (action.do === "hover") { const hit = nodes.filter((node) => node.listeners.pointerenter)[action.at]; hit.dispatch("pointerenter"); out.push(fixed.tip.textContent); }
  if (action.do === "rows") out.push(nodes.filter((node) => node.tag === "tbody")[action.at].children.map((row) => row.children.map((cell) => cell.textContent)));
  if (action.do === "theme") { fixed.theme.dispatch("click"); out.push(root.dataset.theme); }
}
process.stdout.write(JSON.stringify(out));
