"use strict";
// Everything below writes data as text nodes and attributes; nothing is ever parsed as markup.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const main = document.getElementById("main"), tip = document.getElementById("tip");
  const SVG = "http://www.w3.org/2000/svg";
  const setOf = Object.fromEntries(data.sets.map((set) => [set.name, set]));
  const MOST_FOUND = 30;

  function fill(node, attributes, children) {
    for (const [name, value] of Object.entries(attributes || {})) {
      if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
      else if (value !== null && value !== undefined && value !== false) node.setAttribute(name, String(value));
    }
    for (const child of children.flat(Infinity)) {
      if (child === null || child === undefined) continue;
      node.append(typeof child === "object" ? child : document.createTextNode(String(child)));
    }
    return node;
  }
  const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
  const s = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

  const isNumber = (value) => typeof value === "number";
  function shown(value) {
    if (value === null || value === undefined) return "";
    if (!isNumber(value) || Number.isInteger(value)) return isNumber(value) ? value.toLocaleString("en") : String(value);
    return Math.abs(value) >= 1e5 || Math.abs(value) < 1e-3 ? value.toExponential(2) : String(+value.toPrecision(4));
  }
  const percent = (share) => (share === null ? "" : (100 * share).toFixed(share < 0.095 ? 1 : 0) + "%");

  // --- what the pointer or the focus is on -------------------------------------------------------------------

  function tipped(node, text) {
    const show = (event) => {
      tip.textContent = text();
      tip.hidden = false;
      const box = event.clientX ? { x: event.clientX, y: event.clientY } : node.getBoundingClientRect();
      tip.style.left = Math.max(4, Math.min(box.x + 12, window.innerWidth - tip.offsetWidth - 8)) + "px";
      tip.style.top = Math.max(4, Math.min(box.y + 18, window.innerHeight - tip.offsetHeight - 8)) + "px";
    };
    for (const name of ["pointerenter", "pointermove", "focus"]) node.addEventListener(name, show);
    for (const name of ["pointerleave", "blur"]) node.addEventListener(name, () => { tip.hidden = true; });
    return node;
  }
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") tip.hidden = true; });

  // --- parts -------------------------------------------------------------------------------------------------

  function section(id, title, ...children) {
    document.getElementById("nav").append(h("li", {}, h("a", { href: "#" + id }, title)));
    const made = h("section", { id, "aria-labelledby": id + "-title" }, h("h2", { id: id + "-title" }, title), children);
    main.append(made);
    return made;
  }

  // A table that is sorted by any of its columns: {name, number, text(row)}; search narrows it.
  function sortable(caption, columns, rows, search) {
    const body = h("tbody"), heads = [];
    let by = null, down = false, wanted = "";
    const draw = () => {
      let some = rows.filter((row) => !wanted || row.some((cell) => String(cell).toLowerCase().includes(wanted)));
      if (by !== null) {
        const sign = down ? -1 : 1;
        some = some.slice().sort((a, b) => sign * (isNumber(a[by]) && isNumber(b[by]) ? a[by] - b[by]
          : String(a[by]).localeCompare(String(b[by]))));
      }
      body.replaceChildren(...some.map((row) => h("tr", {}, row.map((cell, k) =>
        h("td", { class: columns[k].number ? "number" : null }, columns[k].link && cell !== "" ? columns[k].link(cell)
          : shown(cell))))));
    };
    columns.forEach((column, k) => {
      const head = h("th", { scope: "col", class: column.number ? "number" : null, "aria-sort": "none" },
        h("button", { type: "button", onclick: () => {
          down = by === k ? !down : Boolean(column.number);
          by = k;
          heads.forEach((other) => other.setAttribute("aria-sort", "none"));
          head.setAttribute("aria-sort", down ? "descending" : "ascending");
          draw();
        } }, column.name));
      heads.push(head);
    });
    draw();
    const box = search && rows.length > 8 ? h("label", {}, search + " ", h("input", { type: "search", oninput: (event) => {
      wanted = event.target.value.toLowerCase();
      draw();
    } })) : null;
    return h("div", {}, box, h("div", { class: "wide", tabindex: 0, role: "region", "aria-label": caption },
      h("table", {}, h("caption", { class: "muted" }, caption), h("thead", {}, h("tr", {}, heads)), body)));
  }

  function matrix(caption, heads, rows, described) {
    const table = h("table", { class: "matrix" }, h("caption", { class: "muted" }, caption),
      h("thead", {}, h("tr", {}, h("td"), heads.map((head) => h("th", { scope: "col" }, head.link || head.name)))),
      h("tbody", {}, rows.map((row) => h("tr", { class: row.kind }, h("th", { scope: "row", title: row.name }, row.name),
        row.values.map((value, k) => {
          const layer = h("span", { class: "fill" });
          layer.style.opacity = value === null ? 0 : row.strength(value);
          const text = value === null ? "off" : percent(value);
          return tipped(h("td", { class: heads[k].role || null }, layer, h("span", { class: "value" }, text)),
            () => described(row, heads[k], value));
        })))));
    const toggle = h("button", { type: "button", "aria-pressed": "false", onclick: (event) => {
      const on = table.classList.toggle("numbers");
      event.currentTarget.setAttribute("aria-pressed", String(on));
    } }, "Show numbers");
    return [toggle, h("div", { class: "wide", tabindex: 0, role: "region", "aria-label": caption }, table)];
  }

  // --- summary, schema, structure ----------------------------------------------------------------------------

  section("summary", "In short", data.summary.map((text) => h("p", {}, text)),
    data.warnings.map((text) => h("p", { class: "warning" }, text)));

  function schema() {
    const places = data.places, at = (k) => [places[k][0] * 235, -places[k][1] * 235], lines = [], labels = [];
    const index = Object.fromEntries(data.sets.map((set, k) => [set.name, k])), groups = {};
    for (const relation of data.relations) {
      const key = [index[relation.rows], index[relation.cols]].sort((a, b) => a - b).join(" ");
      (groups[key] = groups[key] || []).push(relation);
    }
    const points = places.map((_, k) => at(k));
    for (const [key, relations] of Object.entries(groups)) {
      const [a, b] = key.split(" ").map((k) => at(+k)), n = relations.length;
      const drawn = n > 4 ? [relations[0]] : relations;
      drawn.forEach((relation, k) => {
        let path, x, y;
        if (relation.rows === relation.cols) {
          const size = 70 + 45 * k;
          path = `M${a} C${a[0] - size},${a[1] - 1.4 * size} ${a[0] + size},${a[1] - 1.4 * size} ${a}`;
          [x, y] = [a[0], a[1] - 1.05 * size - 12];
        } else {
          const bend = (k - (drawn.length - 1) / 2) * 0.9;
          const mid = [(a[0] + b[0]) / 2 + bend * (a[1] - b[1]), (a[1] + b[1]) / 2 + bend * (b[0] - a[0])];
          path = `M${a} Q${mid} ${b}`;
          [x, y] = [(a[0] + b[0]) / 4 + mid[0] / 2, (a[1] + b[1]) / 4 + mid[1] / 2];
        }
        points.push([x, y]);
        lines.push(s("path", { d: path, class: "edge" }));
        const words = n > 4 ? [n + " relations"] : [cut(relation.relation), relation.likelihood,
          percent(relation.explained) + " explained"];
        labels.push(label(x, y, words, "behind", "", () => n > 4 ? relations.map((r) => r.relation).join(", ")
          : `${relation.relation}: ${relation.rows} \u00d7 ${relation.cols}, ${relation.likelihood}`));
      });
    }
    data.sets.forEach((set, k) => labels.push(label(...at(k), [cut(set.name), set.size.toLocaleString("en")], "node",
      "onnode", () => `${set.name}: ${set.size.toLocaleString("en")} entities`)));
    const xs = points.map((p) => p[0]), ys = points.map((p) => p[1]);
    const box = [Math.min(...xs) - 90, Math.min(...ys) - 45, Math.max(...xs) - Math.min(...xs) + 180,
      Math.max(...ys) - Math.min(...ys) + 90];
    return s("svg", { viewBox: box.join(" "), width: box[2], role: "img", "aria-label":
      "Entity sets and the relations that join them; the table below says the same" }, lines, labels);
  }
  function cut(text) {
    return text.length > 20 ? text.slice(0, 19) + "\u2026" : text;
  }
  function label(x, y, words, back, front, text) {
    const width = 10 + 7.2 * Math.max(...words.map((word) => word.length)), height = 8 + 15 * words.length;
    return tipped(s("g", {}, s("rect", { x: x - width / 2, y: y - height / 2, width, height, rx: 6, class: back }),
      words.map((word, k) => s("text", { x, y: y - height / 2 + 16 + 15 * k, "text-anchor": "middle", class: front },
        word))), text);
  }
  section("schema", "Schema", h("div", { class: "wide", tabindex: 0, role: "region", "aria-label": "Graph of the schema" },
    schema()), sortable("Relations", [{ name: "relation" }, { name: "joins" }, { name: "kind" },
    { name: "cells", number: true }, { name: "noise", number: true }, { name: "explained, %", number: true }],
  data.relations.map((r) => [r.relation, `${r.rows} \u00d7 ${r.cols}` + (r.symmetric === null ? "" : r.symmetric
    ? ", symmetric" : ", directed"), r.likelihood, r.cells === null ? "" : r.cells, r.noise === null ? "" : r.noise,
    +(100 * r.explained).toFixed(1)])));

  function factorLink(name) {
    return h("a", { href: "#factors", onclick: () => openFactor(name) }, name);
  }
  const heads = data.factors.map((factor) => ({ name: factor.name, role: factor.role, link: factorLink(factor.name) }));
  const largest = Math.max(1e-12, ...data.rows.filter((row) => row.kind === "relation").flatMap((row) => row.values));
  data.rows.forEach((row) => { row.strength = (v) => 0.2 + 0.8 * (row.kind === "relation" ? Math.sqrt(v / largest) : v); });
  section("structure", "Structure", data.factors.length ? [
    h("p", {}, "Where each factor lives: ", ["shared", "partial", "private"].map((role) =>
      [h("strong", { class: "role " + role }, role), role === "private" ? ". " : ", "]),
    "In entity sets the color is as strong as the factor is active; in relations, as much as it explains."),
    matrix("Factors by entity sets and relations", heads, data.rows, (row, head, value) => value === null
      ? `${head.name} is switched off in ${row.name}` : `${head.name} in ${row.name}: ${percent(value)} ` +
        (row.kind === "relation" ? "of variance added" : "active") + `, ${head.role}`)]
    : h("p", {}, "No factor was found: predictions are made of biases alone."));

  const parts = data.explained.parts;
  section("explained", "Variance explained", matrix("Share of variance (deviance) that each part explains",
    parts.map((name) => ({ name, link: /^F\d+$/.test(name) ? factorLink(name) : name })),
    data.relations.map((r, m) => ({ name: r.relation, values: data.explained.shares[m],
      strength: (v) => 0.9 * Math.sqrt(Math.min(Math.max(v, 0), 1)) })),
    (row, head, value) => `${head.name} explains ${percent(value)} of ${row.name}`));

  // --- factors -----------------------------------------------------------------------------------------------

  const factorPage = h("div", { "aria-live": "polite" });
  const choice = h("select", { id: "factor", onchange: (event) => openFactor(event.target.value) },
    data.factors.map((factor) => h("option", { value: factor.name }, `${factor.name} (${factor.role})`)));
  function openFactor(name) {
    const factor = data.factors.find((one) => one.name === name);
    choice.value = name;
    factorPage.replaceChildren(h("p", {}, h("strong", { class: "role " + factor.role }, factor.role), " in ",
      factor.relations.join(", ") || "no relation"), h("div", { class: "columns" },
    Object.entries(factor.top).map(([set, [ids, mean, std]]) => h("div", {}, h("h3", {}, set),
      sortable(`Largest of ${name} in ${set}`, [{ name: set, link: (cell) => entityLink(set, cell) },
        { name: "mean", number: true }, { name: "\u00b1", number: true }],
      ids.map((id, k) => [setOf[set].ids[id], mean[k], std[k]]), "Search")))));
  }
  section("factors", "Factors", data.factors.length ? [h("label", {}, "Factor ", choice), factorPage]
    : h("p", {}, "There are none."));
  if (data.factors.length) openFactor(data.factors[0].name);

  // --- entities ----------------------------------------------------------------------------------------------

  const entityPage = h("div", { "aria-live": "polite" }), found = h("ul", { class: "found" });
  const which = h("select", { id: "set", onchange: () => find() },
    data.sets.map((set) => h("option", { value: set.name }, set.name)));
  const typed = h("input", { type: "search", id: "entity", autocomplete: "off", oninput: () => find() });
  function find() {
    const set = which.value, wanted = typed.value.toLowerCase(), names = setOf[set].ids, ranks = [[], [], []];
    for (const id of data.searched[set].ids) {
      const name = names[id].toLowerCase();
      if (name.includes(wanted)) ranks[name === wanted ? 0 : name.startsWith(wanted) ? 1 : 2].push(id);
    }
    const listed = ranks.flat().slice(0, MOST_FOUND);
    found.replaceChildren(...(listed.length ? listed.map((id) => h("li", {}, h("button", { type: "button",
      onclick: () => openEntity(set, id) }, names[id]))) : [h("li", { class: "muted" }, "nobody of this name")]));
  }
  function entityLink(set, name) {
    return h("a", { href: "#entities", onclick: () => openEntity(set, setOf[set].ids.indexOf(name)) }, name);
  }
  function openEntity(set, id) {
    const told = data.searched[set], at = told.ids.indexOf(id), name = setOf[set].ids[id];
    which.value = set;
    const near = [];
    if (told.near.of) told.near.of.forEach((of, k) => { if (of === id) near.push([told.near.item[k], told.near.score[k]]); });
    const lists = at < 0 ? [h("p", {}, "This report has no more of it: the set is too large to hold all of it.")] : [
      told.columns.length ? h("div", {}, h("h3", {}, "Its factors"), sortable(`Factors of ${name}`, [{ name: "factor",
        link: factorLink }, { name: "mean", number: true }, { name: "\u00b1", number: true }],
      told.columns.map((column, k) => [column, told.mean[at][k], told.std[at][k]]))) : null,
      near.length ? h("div", {}, h("h3", {}, "Most like it"), sortable(`Nearest to ${name}`, [{ name: set,
        link: (cell) => entityLink(set, cell) }, { name: "likeness", number: true }],
      near.map(([item, score]) => [setOf[set].ids[item], score]))) : null];
    entityPage.replaceChildren(h("h3", {}, name), h("div", { class: "columns" }, lists, cellsOf(set, id)));
  }
  function cellsOf(set, id) {
    if (!data.test) return h("p", { class: "muted" }, "Without test data, nothing is known of how well its cells are predicted.");
    return data.test.flatMap((part) => [["i", part.rows, part.cols, "j"], ["j", part.cols, part.rows, "i"]].map(
      ([own, mine, theirs, other]) => {
        if (mine !== set) return null;
        const cells = [];
        part[own].forEach((one, k) => { if (one === id) cells.push([setOf[theirs].ids[part[other][k]], part.observed[k],
          part.predicted[k], Math.abs(part.observed[k] - part.predicted[k])]); });
        cells.sort((a, b) => a[3] - b[3]);
        const some = cells.length > 10 ? [...cells.slice(0, 5), ...cells.slice(-5)] : cells;
        return cells.length ? h("div", {}, h("h3", {}, `Best and worst predicted in ${part.relation}`), sortable(
          `Test cells in ${part.relation}: ${some.length} of ${cells.length}`, [{ name: theirs,
            link: (cell) => entityLink(theirs, cell) }, { name: "observed", number: true },
          { name: "predicted", number: true }, { name: "error", number: true }], some)) : null;
      }));
  }
  const left = data.sets.filter((set) => data.searched[set.name].ids.length < set.size).map((set) =>
    `Of ${set.name}, the ${data.searched[set.name].ids.length.toLocaleString("en")} with most cells can be found here. `);
  section("entities", "Entities", h("p", {}, "Type a part of a name. ", left), h("label", {}, "In ", which),
    h("label", {}, "Name ", typed), found, entityPage);
  find();

  // --- curves ------------------------------------------------------------------------------------------------

  function chart(words, x, y, draw, units, role = "img") {
    const [W, H, L, B] = [560, 280, 70, 34], low = (v) => Math.min(...v), high = (v) => Math.max(...v);
    const px = (v) => L + (W - L - 12) * (v - low(x)) / (high(x) - low(x) || 1);
    const py = (v) => H - B - (H - B - 14) * (v - low(y)) / (high(y) - low(y) || 1);
    return s("svg", { viewBox: `0 0 ${W} ${H}`, width: W, role, "aria-label": words },
      s("path", { class: "axis", d: `M${L},8 V${H - B} H${W - 8}` }),
      [[low(y), H - B], [high(y), 18]].map(([v, at]) => s("text", { x: L - 6, y: at, "text-anchor": "end" }, shown(v))),
      [[low(x), "start", L], [high(x), "end", W - 8]].map(([v, anchor, at]) => s("text", { x: at, y: H - B + 16,
        "text-anchor": anchor }, shown(v))),
      s("text", { x: (L + W) / 2, y: H - 4, "text-anchor": "middle", class: "quiet" }, units), draw(px, py));
  }
  function calibration(part) {
    const { predicted, observed, se, n } = part.bins;
    const both = [...predicted, ...observed], ends = [Math.min(...both), Math.max(...both)];
    return chart(`Mean observed by mean predicted in ${n.length} bins`, both, both, (px, py) => [
      s("line", { class: "axis", x1: px(ends[0]), y1: py(ends[0]), x2: px(ends[1]), y2: py(ends[1]) }),
      predicted.map((v, k) => tipped(s("g", { tabindex: 0, role: "img", "aria-label":
        `predicted ${shown(v)}, observed ${shown(observed[k])}` },
      s("line", { class: "bar", x1: px(v), x2: px(v), y1: py(observed[k] - 2 * se[k]), y2: py(observed[k] + 2 * se[k]) }),
      s("circle", { class: "dot", cx: px(v), cy: py(observed[k]), r: 5 })),
      () => `predicted ${shown(v)}, observed ${shown(observed[k])} \u00b1 ${shown(2 * se[k])}, ${n[k]} cells`))],
    "predicted (across) and observed (up)", "group");
  }
  if (data.test) {
    section("test", "Held-out cells", data.test.map((part) => h("div", {}, h("h3", {}, part.relation), h("div",
      { class: "columns" }, sortable(`Scores of ${part.relation}`, [{ name: "measure" }, { name: "value", number: true }],
      Object.entries(part.score).filter(([, v]) => v !== null).map(([key, v]) => [key.replace(/_/g, " "), v])),
    h("div", {}, h("p", {}, [50, 80, 95].map((level) =>
      `Of the intervals of ${level}%, ${percent(part.score["coverage_" + level])} hold their cell. `)),
    calibration(part))))));
  }
  const trace = data.trace, sweeps = trace.map((_, k) => k + 1), late = trace.slice(Math.floor(trace.length / 10));
  section("convergence", "Convergence", trace.length > 1 ? chart(`The ${data.objective} over ${trace.length} sweeps`, sweeps,
    late, (px, py) => {
      const first = trace.length - late.length;
      const at = late.map((v, k) => `${px(first + k + 1).toFixed(1)},${py(v).toFixed(1)}`);
      const hit = s("rect", { x: 70, y: 0, width: 490, height: 250, fill: "transparent" });
      let sweep = trace.length;
      hit.addEventListener("pointermove", (event) => {
        const box = hit.getBoundingClientRect();
        sweep = 1 + Math.round((trace.length - 1) * Math.min(Math.max((event.clientX - box.x) / box.width, 0), 1));
      });
      return [s("path", { class: "line", d: "M" + at.join(" L") }),
        tipped(hit, () => `sweep ${sweep}: ${trace[sweep - 1].toLocaleString("en")}`)];
    }, "sweeps; the first tenth is cut off") : null, h("p", {}, data.status));

  // --- how to make it again ----------------------------------------------------------------------------------

  section("settings", "Settings and versions", h("div", { class: "columns" },
    sortable("Settings of the fit", [{ name: "setting" }, { name: "value" }], Object.entries(data.settings)),
    sortable("Versions", [{ name: "package" }, { name: "version" }], Object.entries(data.versions))));

  const theme = document.getElementById("theme");
  const dark = () => (document.documentElement.dataset.theme ||
    (window.matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const mark = () => theme.setAttribute("aria-pressed", String(dark()));
  theme.addEventListener("click", () => { document.documentElement.dataset.theme = dark() ? "light" : "dark"; mark(); });
  mark();
})();
