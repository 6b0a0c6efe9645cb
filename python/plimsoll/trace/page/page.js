// The page: the list of files, the file that is looked at, and what is drawn of the whole run.
const page = JSON.parse(document.getElementById("plimsoll-data").textContent);
const MOST_LINES = 30, get = (id) => document.getElementById(id);

page.files.forEach((file, index) => { file.index = index; });

const number = (name, title, of, said = words.count, more = {}) => ({ name, title, value: of, show: (row) => said(of(row)), ...more });
const field = (key) => (file) => file[key] === undefined ? 0 : file[key];
const known = (key) => (file) => file[key] === undefined ? null : file[key];

const FILE_COLUMNS = [
  { name: "File", left: true, value: (file) => file.path, show: named },
  { name: "time", title: "Time in all calls on it", value: (file) => best(file.time), show: (file) => words.time(file.time) },
  number("of run", "Time in its calls over the time of the run", known("run_share"), words.share),
  number("opens", "Calls that opened it", field("opens")),
  number("reads", "Reads that succeeded", field("reads")),
  number("read", "Bytes read", field("read_bytes"), words.size),
  number("writes", "Writes that succeeded", field("writes")),
  number("written", "Bytes written", field("write_bytes"), words.size),
  number("seeks", "Calls that set or queried the offset", field("seeks")),
  number("useless", "Seeks that did not move the offset, or that no read or write followed", field("useless_seeks")),
  number("in order", "Share of requests that began where the last one of the same open file ended", known("sequential_share"), words.share),
  number("failed", "Calls that failed", (file) => (file.failed || []).reduce((sum, each) => sum + each.count, 0)),
];

const REQUEST_COLUMNS = [
  { name: "start", left: true, value: (at) => at, show: (at) => (rowsOf().t[at] / 1e9).toFixed(6) + SPACE + "s" },
  { name: "what", value: (at) => rowsOf().w[at], show: (at) => rowsOf().w[at] ? "write" : "read" },
  number("offset", "Byte of the file at which it began", (at) => rowsOf().o[at]),
  number("asked", "Bytes requested", (at) => rowsOf().n[at]),
  number("given", "Bytes transferred", (at) => rowsOf().r[at]),
  { name: "took", title: "As recorded: with the cost of tracing", value: (at) => rowsOf().d[at], show: (at) => words.seconds(rowsOf().d[at] === null ? null : rowsOf().d[at] / 1e9) },
  { name: "thread", value: (at) => rowsOf().k[at], show: (at) => threadName(rowsOf().k[at]) },
];

let files, lines, pattern, table, looked = null;

function rowsOf() {
  return pattern.found.rows;
}

function named(file) {
  const more = (file.other_names || []).length;
  return more ? `${file.path} (+${more} name${more > 1 ? "s" : ""})` : file.path;
}

// Every name that a file had at any time.
function namesOf(file) {
  return [file.path, ...(file.other_names || [])];
}

function someOf(names) {
  return names.length > 20 ? [...names.slice(0, 20), `and ${words.count(names.length - 20)} more`] : names;
}

function filtered() {
  const expression = get("filter").value;
  try {
    const wanted = new RegExp(expression);
    get("filter-problem").textContent = "";
    return page.files.filter((file) => (get("only-data").checked ? file.reads || file.writes : true) && namesOf(file).some((name) => wanted.test(name)));
  } catch (problem) {
    get("filter-problem").textContent = "Not a regular expression: " + problem.message;
    return null;
  }
}

function fillFiles() {
  const found = filtered();
  if (!found) return;
  files.fill(found);
  get("file-count").textContent = `${words.count(found.length)} of ${words.count(page.files.length)} files`;
  fillLines();
}

// The time line follows the list: its first files that were used at all.
function fillLines() {
  const used = files.rows.filter((file) => file.timeline && file.timeline.length);
  lines = used.slice(0, MOST_LINES);
  get("line-note").textContent = used.length > lines.length
    ? `The first ${words.count(lines.length)} of ${words.count(used.length)} files of the list, in its order.` : "In the order of the list.";
  drawLines();
}

function drawLines() {
  const height = lines.length * ROW + 52;
  show(get("file-lines"), height, (surface, colours) => fileLines(surface, colours, lines));
}

function facts(file) {
  const pairs = [
    ["what it is", [file.kind, file.executable ? "program or library" : ""].filter(Boolean).join(", ")],
    ["other names", someOf(file.other_names || []).join("  ")],
    ["size", file.size === undefined ? "" : `${words.size(file.size)} (greatest in the trace)`],
    ["opened", `${words.count(file.opens || 0)} times, open for ${words.seconds(file.open_s)}`],
    ["used", `${words.seconds(file.first_s)} to ${words.seconds(file.last_s)}, by ${words.count(file.threads)} threads of ${words.count(file.process_count)} processes`],
    ["read", direction(file, "read")],
    ["written", direction(file, "write")],
    ["seeks", file.seeks ? `${words.count(file.seeks)}, of them ${words.count(file.useless_seeks || 0)} useless (${words.count(file.still_seeks || 0)} did not move the offset)` : ""],
    ["in order", file.sequential_share === undefined ? "" : `${words.share(file.sequential_share)} of requests follow the last one of the same open file; ${words.share(file.descending_share || 0)} begin before it`],
    ["syncs", file.syncs ? `${words.count(file.syncs)}, ${words.time(file.sync_time)}` : ""],
    ["O_DIRECT", file.direct ? `${words.count(file.direct)} requests, ${words.count(file.unaligned_direct || 0)} of them not aligned` : ""],
    ["mapped", file.maps ? `${words.count(file.maps)} times, ${words.size(file.mapped_bytes)}: accesses there are not visible` : ""],
    ["other calls", counted(Object.entries(file.metadata || {}))],
    ["failed", counted((file.failed || []).map((each) => [`${each.call} ${each.error}`, each.count]))],
    ["place unknown", file.unknown_offsets ? `${words.count(file.unknown_offsets)} requests, which the pictures leave out` : ""],
  ];
  const list = get("file-facts");
  list.replaceChildren();
  for (const [name, said] of pairs) {
    if (!said) continue;
    list.append(Object.assign(document.createElement("dt"), { textContent: name }), Object.assign(document.createElement("dd"), { textContent: said }));
  }
}

function counted(pairs) {
  return pairs.sort((a, b) => b[1] - a[1]).map(([name, count]) => `${name} ${words.count(count)}`).join(", ");
}

function direction(file, way) {
  const [requests, bytes, unique, again] = way === "read"
    ? [file.reads, file.read_bytes, file.unique_read_bytes, file.reread_bytes] : [file.writes, file.write_bytes, file.unique_write_bytes, file.overwritten_bytes];
  if (!requests) return "";
  const said = [`${words.size(bytes || 0)} in ${words.count(requests)} requests`];
  said.push(`${file.approximate ? "at least " : ""}${words.size(unique || 0)} distinct`);
  if (again) said.push(`${words.size(again)} ${way === "read" ? "read again" : "written over"}`);
  if (file[way] && file[way].size) {
    const { mean, sd, max } = file[way].size;
    said.push(`size of a request ${words.size(mean)} on average (standard deviation ${words.size(sd)}), at most ${words.size(max)}`);
  }
  if (way === "read" && file.short_reads) said.push(`${words.count(file.short_reads)} returned less than requested`);
  if (way === "read" && file.end_reads) said.push(`${words.count(file.end_reads)} at the end of the file`);
  if (file[way + "_time"]) said.push(`${words.time(file[way + "_time"])} in calls`);
  return said.join("; ");
}

const HISTOGRAMS = [
  { id: "sizes", title: "bytes requested", of: (side) => side.size, show: words.binary, unit: 1 },
  { id: "durations", title: "duration", of: (side) => side.duration_s, show: words.seconds, unit: 1e-9 },
  { id: "speeds", title: "bytes per second", of: (side) => side.speed, show: words.speed, unit: 1 },
];

function drawHistogram(each, surface, colours) {
  const bins = (side) => side && each.of(side) ? each.of(side).histogram : [];
  histogram(surface, colours, { title: each.title, show: each.show, unit: each.unit, reads: bins(looked.read), writes: bins(looked.write) });
}

function drawFile() {
  if (!looked) return;
  pattern.draw();
  for (const each of HISTOGRAMS) show(get("chart-" + each.id), 200, (surface, colours) => drawHistogram(each, surface, colours));
}

// Describes what part of the file is in the picture, and how to get more.
function patternChanged() {
  const found = pattern.found, whole = page.pictures[looked.index];
  const inView = pattern.inView();
  table.fill(inView);
  if (pattern.picked !== null && inView.includes(pattern.picked)) table.pick(pattern.picked);
  get("requests").hidden = !found.rows;
  const note = get("pattern-note");
  if (found.density) {
    note.textContent = `Binned: ${words.count(whole.requests)} requests in ${words.count(found.density.columns)} × ${words.count(found.density.rows)} cells, `
      + "a stronger colour means more requests. Zoom in, or show each request of this window with: ";
    note.append(Object.assign(document.createElement("code"), { textContent: exactCommand(looked, pattern.view) }));
  } else if (found.rows) note.textContent = `Exact: ${words.count(inView.length)} of ${words.count(whole.requests)} requests are in the window.`;
  else note.textContent = looked.reads || looked.writes ? "The offsets of its requests are unknown." : "No data were read or written here.";
}

async function look(file, scroll) {
  looked = file;
  files.pick(file);
  get("file").hidden = false;
  get("file-name").textContent = file.path;
  facts(file);
  const none = !page.pictures[file.index];
  get("pattern-place").hidden = none;
  get("histograms").hidden = !file.read && !file.write;
  await pattern.open(file);
  drawFile();
  document.documentElement.dataset.looked = file.path;
  if (scroll) get("file").scrollIntoView({ block: "start" });
}

function toggles() {
  for (const way of ["read", "write"]) {
    const button = get("show-" + way);
    button.addEventListener("click", () => {
      pattern.shows[way] = !pattern.shows[way];
      button.setAttribute("aria-pressed", String(pattern.shows[way]));
      pattern.draw();
      patternChanged();
    });
  }
  get("reset").addEventListener("click", () => pattern.reset());
}

function drawAll() {
  show(get("run-line"), 320, runLine);
  drawLines();
  drawFile();
}

function start() {
  files = new List(get("file-list"), FILE_COLUMNS, { size: 25, label: "Files", chosen: (file) => look(file, true) });
  pattern = new Pattern(get("pattern"), get("tip"), patternChanged, (at) => { table.pick(at); get("picked").textContent = requestText(rowsOf(), at); });
  table = new List(get("requests"), REQUEST_COLUMNS, { size: 100, label: "Requests in the window", chosen: (at) => { pattern.pick(at, false); table.pick(at); get("picked").textContent = requestText(rowsOf(), at); } });
  const fillLater = later(fillFiles);
  get("filter").addEventListener("input", fillLater);
  get("only-data").addEventListener("change", fillFiles);
  for (const column of FILE_COLUMNS) column.cell.addEventListener("click", fillLines);
  toggles();
  savers(get("pattern-save"), () => fileName(looked.path), () => [1000, pattern.height], (surface, colours) => pattern.paint(surface, colours));
  savers(get("run-save"), () => "run", () => [1000, 320], runLine);
  savers(get("lines-save"), () => "files", () => [1000, lines.length * ROW + 52], (surface, colours) => fileLines(surface, colours, lines));
  for (const each of HISTOGRAMS) savers(get("save-" + each.id), () => each.id + "-" + fileName(looked.path), () => [480, 220], (surface, colours) => drawHistogram(each, surface, colours));
  get("file-lines").addEventListener("click", (event) => {
    const file = lines[Math.floor((event.offsetY - 8) / ROW)];
    if (file) look(file, true);
  });
  fillFiles();
  const first = page.files.find((file) => page.pictures[file.index]) || page.files[0];
  drawAll();
  Promise.resolve(first ? look(first, false) : null).then(() => { document.documentElement.dataset.ready = "yes"; });
  window.addEventListener("resize", later(drawAll));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  // On paper colours are those of white paper, and there is no time to wait for a frame.
  window.addEventListener("beforeprint", drawAll);
  window.addEventListener("afterprint", drawAll);
}

function later(act) {
  let waiting = 0;
  return () => {
    clearTimeout(waiting);
    waiting = setTimeout(act, 120);
  };
}

start();
