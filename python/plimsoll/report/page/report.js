"use strict";
(function () {
  const page = JSON.parse(document.getElementById("plimsoll-data").textContent);
  const options = {
    formatLocale: { decimal: ".", thousands: ",", grouping: [3], currency: ["", ""], minus: "-" },
    mode: "vega-lite", renderer: "svg", ast: true, scaleFactor: { png: 2 },
    actions: { export: { svg: true, png: true }, source: false, compiled: false, editor: false },
  };

  const suited = new Map();  // widths of charts that fitted the page
  const drawn = new Map();  // charts on the page, to be drawn again when its width changes

  // A table is kept as columns: plain values, or {k: distinct texts, i: index of each row's text}.
  function rows(columns) {
    const names = Object.keys(columns);
    const count = names.length ? (columns[names[0]].i || columns[names[0]]).length : 0;
    const found = [];
    for (let at = 0; at < count; at += 1) {
      const row = {};
      for (const name of names) {
        const column = columns[name];
        row[name] = column.k ? column.k[column.i[at]] : column[at];
      }
      found.push(row);
    }
    return found;
  }

  const NARROW = 560;  // pixels: below, charts that stand side by side stand below each other

  function parts(node, visit) {
    if (Array.isArray(node)) node.forEach((each) => parts(each, visit));
    else if (node && typeof node === "object") {
      visit(node);
      for (const name of Object.keys(node)) if (name !== "datasets" && name !== "data") parts(node[name], visit);
    }
  }

  // The specification for a page of that width, and how many views then stand side by side.
  function fitted(spec, room) {
    const found = JSON.parse(JSON.stringify(spec));
    const narrow = room < NARROW;
    let across = 1, longest = 0, entries = 0;
    parts(found, (node) => {
      if (narrow && node.hconcat) { node.vconcat = node.hconcat; delete node.hconcat; }
      if (narrow && node.facet && node.facet.column) { node.facet.row = node.facet.column; delete node.facet.column; }
      if (narrow && node.columns > 1 && node.facet) node.columns = 1;
      if (narrow && node.encoding && node.encoding.facet && node.encoding.facet.columns > 1) node.encoding.facet.columns = 1;
      if (narrow && node.labelLimit > 130) node.labelLimit = 130;
      if (narrow && node.orient === "top" && node.columns) node.columns = 2;
      if (node.legend && node.scale && Array.isArray(node.scale.domain)) {
        longest = Math.max(longest, ...node.scale.domain.map((label) => String(label).length));
        entries = Math.max(entries, node.scale.domain.length);
      }
      if (node.hconcat) across = Math.max(across, node.hconcat.length);
      if (node.encoding && node.encoding.facet) across = Math.max(across, node.encoding.facet.columns || 1);
      if (node.facet && node.facet.column) across = Math.max(across, (node.facet.column.sort || []).length || 1);
    });
    if (narrow && longest > 20 && entries <= 8) found.config.legend = Object.assign({}, found.config.legend, { columns: 1, labelLimit: room - 60 });
    if (narrow) found.config.title = Object.assign({}, found.config.title, { limit: room - 20 });
    return { spec: found, across };
  }

  function widen(spec, width) {
    parts(spec, (node) => { if (typeof node.width === "number" && (node.mark || node.layer || node.spec)) node.width = width; });
  }

  // Draws, measures, and draws again until the chart is as wide as the page: what axes and legends take is known only then.
  async function draw(key, spec, columns) {
    const place = document.getElementById("chart-" + key);
    if (!place || place.closest("details.later:not([open])")) return;
    drawn.set(key, [spec, columns]);
    const room = place.clientWidth - 4, fit = fitted(spec, room);
    fit.spec.datasets = {};
    for (const name of Object.keys(columns)) fit.spec.datasets[name] = rows(columns[name]);
    // Charts of components have the same axes: the width that suited one suits the next.
    const kind = key.startsWith("component-") ? "component " + room : "";
    let width = suited.get(kind) || Math.max(80, Math.floor(room / fit.across) - 90);
    try {
      for (let attempt = 0; attempt < 3; attempt += 1) {
        widen(fit.spec, width);
        await vegaEmbed(place, fit.spec, Object.assign({ downloadFileName: page.name + "-" + key }, options));
        const left = room - Number(place.querySelector("svg.marks").getAttribute("width"));
        if (left >= 0 && left < 6 * fit.across) { if (kind) suited.set(kind, width); break; }
        width = Math.max(80, Math.floor(width + (left - 2) / fit.across));
      }
      place.dataset.drawn = "yes";
    } catch (problem) {
      place.textContent = "This chart could not be drawn (" + problem.message + "); the table below contains its numbers.";
      place.classList.add("failed");
      console.error("chart " + key + ": " + problem.message);
    }
  }

  function fillTable(key, heads, found, fields) {
    const table = document.getElementById("table-" + key);
    table.replaceChildren();
    const top = table.createTHead().insertRow();
    for (const head of heads) {
      const cell = document.createElement("th");
      cell.scope = "col";
      cell.className = "n";
      cell.textContent = head;
      top.append(cell);
    }
    const body = table.createTBody();
    for (const row of found) {
      const line = body.insertRow();
      for (const field of fields) {
        const cell = line.insertCell();
        cell.className = "n";
        cell.textContent = row[field] === null || row[field] === undefined ? "–" : String(row[field]);
      }
    }
  }

  async function showRun(id) {
    const run = page.runs[id];
    document.getElementById("run-facts").textContent = run.facts;
    const series = JSON.parse(JSON.stringify(page.frames.series).replaceAll("TIME", run.time_unit));
    const testers = page.frames.testers, hasErrors = rows(run.series).some((row) => row.errors > 0);
    if (!hasErrors) series.spec.vconcat = series.spec.vconcat.slice(0, -1);  // the last panel is theirs
    const isServed = rows(run.served).length > 0, first = series.spec.vconcat[0];
    document.getElementById("served-note").textContent = run.served_note;
    if (!isServed) first.layer = first.layer.filter((layer) => !layer.data || layer.data.name !== "served");
    await draw("series", series.spec, Object.assign({}, series.data, {
      series: run.series, served: run.served, cut: run.cut, actions: run.actions, changes: run.changes,
    }));
    const shares = rows(run.testers), figure = document.getElementById("figure-testers");
    if (figure) figure.hidden = !shares.length;
    if (shares.length) {
      await draw("testers", testers.spec, Object.assign({}, testers.data, { testers: run.testers }));
      const placed = "rtt" in shares[0];
      fillTable("testers", ["Tester", "Transactions", "Errors", "Per second", "Mean (ms)", "Share"].concat(
        placed ? ["p50 (ms)", "p95 (ms)", "Round trip (ms)", "Less round trip (ms)"] : []),
        shares, ["tester", "transactions", "errors", "rate", "mean", "share"].concat(
          placed ? ["p50", "p95", "rtt", "less"] : []));
    }
    fillTable("series",
      ["Time (s)", "Requests/s", "Offered/s", "Active testers", "Concurrency", "Errors/s"].concat(
        ["Mean", "p50", "p95"].map((name) => name + " (" + run.time_unit + ")")),
      rows(run.series), ["t", "throughput", "offered", "active", "concurrency", "errors", "mean", "p50", "p95"]);
    const place = document.getElementById("run-tables");
    place.replaceChildren(...run.tables.map(foldedTable));
    await showComponents(run);  // last: everything else of the run is visible before
  }

  // The narrow charts of a component, below each other: the frame of each with its title and its own dataset.
  function stripsOf(run, component) {
    const data = { cut: run.cut, actions: run.actions, changes: run.changes };
    const strips = component.strips.map((strip, number) => {
      const frame = page.frames[strip.stacked ? "areas" : "lines"].spec;
      const spec = JSON.parse(JSON.stringify(frame).replaceAll("TITLE", strip.title).replaceAll('"lines"', '"lines-' + number + '"'));
      const bins = run.times.length - 1;
      delete spec.config;
      parts(spec, (node) => {
        if (node.axis && node.field === "t" && number < component.strips.length - 1) node.axis.labels = false;
        if (node.opacity && node.opacity.scale && node.opacity.scale.domain) {
          const shades = node.opacity.scale;
          shades.range = strip.names.map((name) => shades.range[shades.domain.indexOf(name)]);
          shades.domain = strip.names;
        }
        if (node.strokeDash && node.strokeDash.field && !strip.legend) node.strokeDash.legend = null;
      });
      if (!strip.legend) spec.height = page.frames.small;
      const table = { t: [], value: [], name: [] };
      strip.values.forEach((values, line) => {
        run.times.forEach((t, at) => {
          table.t.push(t);
          table.value.push(Array.isArray(values) ? values[Math.min(at, bins - 1)] : values);
          table.name.push(strip.names[line]);
        });
      });
      data["lines-" + number] = table;
      return spec;
    });
    const scale = { x: "shared", strokeDash: "independent", opacity: "independent" };
    return [{ config: page.frames.lines.spec.config, vconcat: strips, spacing: 8, resolve: { scale } }, data];
  }

  function componentTable(run, component) {
    const lines = component.strips.flatMap((strip) => strip.names.map((name, line) => ({
      head: name + " (" + strip.title + ")", values: strip.values[line],
    })));
    const table = { columns: [["Time (s)", true]].concat(lines.map((line) => [line.head, true])), rows: [], title: "Numbers", note: "" };
    for (let at = 0; at < run.times.length - 1; at += 1) table.rows.push([String(run.times[at])].concat(lines.map((line) => {
      const value = Array.isArray(line.values) ? line.values[at] : line.values;
      return value === null ? "–" : String(value);
    })));
    return foldedTable(table);
  }

  let shownTurn = 0;

  // A folded component is drawn when the reader opens it.
  async function showComponents(run) {
    const turn = shownTurn += 1, list = document.getElementById("component-list");
    for (const key of Array.from(drawn.keys())) if (key.startsWith("component-")) drawn.delete(key);
    document.getElementById("run-components").hidden = !run.components.length;
    document.getElementById("components-note").textContent = run.components_note;
    const parts = run.components.map((component, number) => {
      const key = "component-" + number, details = made("details", "", "component"), chart = made("div", "", "chart");
      const show = async () => {
        if (drawn.has(key)) return;
        await draw(key, ...stripsOf(run, component));
        details.append(componentTable(run, component));
      };
      chart.id = "chart-" + key;
      chart.setAttribute("role", "img");
      chart.setAttribute("aria-label", component.title + " against time: " + component.strips.map((strip) => strip.title).join(", "));
      details.append(made("summary", component.title), chart);
      details.open = component.open;
      details.addEventListener("toggle", () => { if (details.open && details.isConnected) show(); });
      return [details, component.open ? show : null];
    });
    list.replaceChildren(...parts.map((part) => part[0]));
    for (const [, show] of parts) if (show && turn === shownTurn) await show();  // else the reader chose another run
  }

  function made(name, text, kind) {
    const found = document.createElement(name);
    if (text) found.textContent = text;
    if (kind) found.className = kind;
    return found;
  }

  function foldedTable(told) {
    const details = made("details"), box = made("div", "", "wide"), table = made("table");
    box.tabIndex = 0;
    box.setAttribute("role", "region");
    box.setAttribute("aria-label", told.title);
    const top = table.createTHead().insertRow(), body = table.createTBody();
    for (const [name, numeric] of told.columns) {
      const head = made("th", name, numeric ? "n" : "");
      head.scope = "col";
      top.append(head);
    }
    for (const row of told.rows) {
      const line = body.insertRow();
      row.forEach((text, at) => line.append(made("td", text, told.columns[at][1] ? "n" : text.length <= 30 ? "k" : "")));
    }
    box.append(table);
    details.append(made("summary", told.title), box);
    if (told.note) details.append(made("p", told.note, "note"));
    return details;
  }

  async function drawAgain() {
    for (const [key, told] of Array.from(drawn)) await draw(key, told[0], told[1]);
  }

  async function start() {
    for (const key of Object.keys(page.figures)) await draw(key, page.figures[key].spec, page.figures[key].data);
    for (const later of document.querySelectorAll("details.later")) {
      const key = later.querySelector(".chart").id.slice("chart-".length);
      later.addEventListener("toggle", () => {
        if (later.open && !drawn.has(key)) draw(key, page.figures[key].spec, page.figures[key].data);
      });
    }
    const picker = document.getElementById("run-picker");
    if (picker) {
      picker.addEventListener("change", () => showRun(picker.value));
      await showRun(picker.value);
    }
    let width = window.innerWidth, waiting = 0;
    window.addEventListener("resize", () => {
      if (window.innerWidth === width) return;
      width = window.innerWidth;
      clearTimeout(waiting);
      waiting = setTimeout(drawAgain, 200);
    });
    document.documentElement.dataset.charts = String(document.querySelectorAll("[data-drawn=yes]").length);
  }

  start();
})();
