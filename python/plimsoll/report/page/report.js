"use strict";
(function () {
  const page = JSON.parse(document.getElementById("plimsoll-data").textContent);
  const options = {
    formatLocale: { decimal: ".", thousands: ",", grouping: [3], currency: ["", ""], minus: "-" },
    mode: "vega-lite", renderer: "svg", ast: true, scaleFactor: { png: 2 },
    actions: { export: { svg: true, png: true }, source: false, compiled: false, editor: false },
  };

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

  async function draw(key, spec, columns) {
    const place = document.getElementById("chart-" + key);
    if (!place) return;
    const full = Object.assign({}, spec, { datasets: {} });
    for (const name of Object.keys(columns)) full.datasets[name] = rows(columns[name]);
    try {
      await vegaEmbed(place, full, Object.assign({ downloadFileName: page.name + "-" + key }, options));
      place.dataset.drawn = "yes";
    } catch (problem) {
      place.textContent = "This chart could not be drawn (" + problem.message + "); its numbers stand in the table below.";
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
    const series = page.frames.series, testers = page.frames.testers;
    await draw("series", series.spec, Object.assign({}, series.data, { series: run.series, cut: run.cut }));
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
      ["Time (s)", "Requests/s", "Offered/s", "Concurrency", "Errors/s", "Mean (ms)", "p50 (ms)", "p95 (ms)"],
      rows(run.series), ["t", "throughput", "offered", "concurrency", "errors", "mean", "p50", "p95"]);
  }

  async function start() {
    for (const key of Object.keys(page.figures)) await draw(key, page.figures[key].spec, page.figures[key].data);
    const picker = document.getElementById("run-picker");
    if (picker) {
      picker.addEventListener("change", () => showRun(picker.value));
      await showRun(picker.value);
    }
    document.documentElement.dataset.charts = String(document.querySelectorAll("[data-drawn=yes]").length);
  }

  start();
})();
