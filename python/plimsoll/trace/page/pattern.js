// The access pattern of a file: offset over time. Reads are filled and dark, writes are crossed or framed and bright.
const MARGIN = { left: 74, right: 14, top: 26, bottom: 40 };
const REACH = 8; // pixels within which a request is hit

class Pattern {
  constructor(canvas, tip, changed, selected) {
    Object.assign(this, { canvas, tip, changed, selected, file: null, found: null, view: null, whole: null, picked: null });
    this.shows = { read: true, write: true };
    this.height = 420;
    canvas.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    canvas.addEventListener("pointerdown", (event) => this.press(event));
    canvas.addEventListener("pointermove", (event) => this.move(event));
    canvas.addEventListener("pointerup", (event) => this.release(event));
    canvas.addEventListener("pointerleave", () => { this.tip.hidden = true; });
    canvas.addEventListener("dblclick", () => this.reset());
    canvas.addEventListener("keydown", (event) => this.key(event));
  }
  async open(file) {
    this.file = file;
    this.picked = null;
    this.whole = extent(file);
    await this.look(this.whole);
  }
  reset() {
    this.look(this.whole);
  }
  async look(view) {
    this.view = { ...view };
    const asked = this.view;
    // Requests that began before the window and reach into it belong to the picture.
    const found = await requests(this.file, view.t0 - (this.whole.t1 - this.whole.t0), view.t1);
    if (asked !== this.view) return;
    this.found = found;
    this.draw();
    this.changed(this);
  }
  // Requests of the window, as the table shows them.
  inView() {
    if (!this.found || !this.found.rows) return [];
    const { t, d, o, r, w } = this.found.rows, { t0, t1, o0, o1 } = this.view;
    return this.found.indices.filter((at) => (t[at] + (d[at] || 0)) / 1e9 >= t0 && t[at] / 1e9 <= t1 && o[at] + r[at] >= o0
      && o[at] <= o1 && this.shows[w[at] ? "write" : "read"]);
  }
  box(surface) {
    return { x: MARGIN.left, y: MARGIN.top, width: surface.width - MARGIN.left - MARGIN.right, height: surface.height - MARGIN.top - MARGIN.bottom };
  }
  draw() {
    if (this.view) show(this.canvas, this.height, (surface, colours) => this.paint(surface, colours));
  }
  paint(surface, colours) {
    const { t0, t1, o0, o1 } = this.view, box = this.box(surface);
    const x = { low: t0, high: t1, title: "time since the beginning of the trace", show: timeLabel(t0, t1) };
    const y = { low: o0, high: o1, title: "offset in the file", show: byteLabel(o0, o1) };
    this.scales = axes(surface, box, x, y, colours);
    surface.clipped(box.x, box.y, box.width, box.height, () => {
      if (this.found.density) this.paintDensity(surface, colours);
      else if (this.found.rows) this.paintPoints(surface, colours);
    });
    surface.frame(box.x, box.y, box.width, box.height, colours.line);
  }
  place(at) {
    const { t, d, o, r } = this.found.rows, { right, up } = this.scales;
    const x = right(t[at] / 1e9), y = up(o[at] + r[at]);
    return [x, y, right((t[at] + (d[at] || 0)) / 1e9) - x, up(o[at]) - y];
  }
  paintPoints(surface, colours) {
    const crosses = [];
    for (const at of this.inView()) {
      const [x, y, width, height] = this.place(at);
      if (!this.found.rows.w[at]) surface.rect(x - 1, y - 1, Math.max(width + 2, 3), Math.max(height + 2, 3), colours.read, 0.85);
      else if (width < 8 && height < 8) {
        const middleX = x + width / 2, middleY = y + height / 2;
        crosses.push(middleX - 3, middleY - 3, middleX + 3, middleY + 3, middleX - 3, middleY + 3, middleX + 3, middleY - 3);
      } else {
        surface.frame(x - 1, y - 1, Math.max(width, 4), Math.max(height, 4), colours.write, 1.5);
        crosses.push(x - 1, y + height, x + width, y - 1);
      }
    }
    if (crosses.length) surface.lines(crosses, colours.write, 1.5);
    if (this.picked !== null) {
      const [x, y, width, height] = this.place(this.picked);
      surface.frame(x - 6, y - 6, width + 12, height + 12, colours.ink, 2);
    }
  }
  paintDensity(surface, colours) {
    const { start_ns, column_ns, start_byte, row_bytes, reads, writes } = this.found.density;
    const all = [...reads, ...writes], most = Math.log1p(all.reduce((top, cell) => Math.max(top, cell[2], 1), 1));
    const both = this.shows.read && this.shows.write ? new Set(writes.map(([column, row]) => column + ":" + row)) : new Set();
    const strokes = [];
    const cell = ([column, row, count], colour, isWrite) => {
      const x = this.scales.right((start_ns + column * column_ns) / 1e9), y = this.scales.up(start_byte + (row + 1) * row_bytes);
      const width = Math.max(this.scales.right((start_ns + (column + 1) * column_ns) / 1e9) - x, 1.5);
      const height = Math.max(this.scales.up(start_byte + row * row_bytes) - y, 1.5);
      const shared = isWrite ? this.shows.read && readAt.has(column + ":" + row) : both.has(column + ":" + row);
      const opacity = 0.3 + 0.7 * Math.log1p(Math.max(count, 1)) / most;
      surface.rect(isWrite && shared ? x + width / 2 : x, y, shared ? width / 2 : width, height, colour, opacity);
      if (isWrite && height >= 5) strokes.push(x, y + height, x + width, y);
    };
    const readAt = new Set(reads.map(([column, row]) => column + ":" + row));
    if (this.shows.read) reads.forEach((each) => cell(each, colours.read, false));
    if (this.shows.write) writes.forEach((each) => cell(each, colours.write, true));
    if (strokes.length) surface.lines(strokes, colours.paper, 1);
  }
  // The request nearest to a place of the canvas, or the bins there.
  hit(x, y) {
    if (!this.found || !this.found.rows) return null;
    let nearest = null, least = REACH;
    for (const at of this.inView()) {
      const [left, top, width, height] = this.place(at);
      const distance = Math.hypot(Math.max(left - x, 0, x - left - width), Math.max(top - y, 0, y - top - height));
      if (distance < least) [nearest, least] = [at, distance];
    }
    return nearest;
  }
  at(event) {
    const bounds = this.canvas.getBoundingClientRect();
    return [event.clientX - bounds.left, event.clientY - bounds.top];
  }
  told(x, y) {
    const at = this.hit(x, y);
    if (at !== null) return requestText(this.found.rows, at);
    return this.found && this.found.density ? this.toldBin(x, y) : "";
  }
  toldBin(x, y) {
    const { start_ns, column_ns, start_byte, row_bytes, reads, writes } = this.found.density, box = this.canvasBox();
    const seconds = this.view.t0 + (x - box.x) / box.width * (this.view.t1 - this.view.t0);
    const byte = this.view.o0 + (box.y + box.height - y) / box.height * (this.view.o1 - this.view.o0);
    const column = Math.floor((seconds * 1e9 - start_ns) / column_ns), row = Math.floor((byte - start_byte) / row_bytes);
    const said = [["read", reads], ["written", writes]].flatMap(([verb, cells]) => cells
      .filter((cell) => cell[0] === column && cell[1] === row)
      .map((cell) => `${words.size(cell[3])} ${verb}, ${words.count(cell[2])} requests begin here`));
    return said.length ? `Bin of ${words.seconds(column_ns / 1e9)} and ${words.size(row_bytes)}: ` + said.join("; ") : "";
  }
  canvasBox() {
    return this.box({ width: this.canvas.clientWidth, height: this.height });
  }
  wheel(event) {
    if (!this.view) return;
    const factor = Math.exp(Math.max(-1, Math.min(1, event.deltaY / 200)));
    // All is in view already: the page may scroll.
    if (factor > 1 && this.view.t1 - this.view.t0 >= this.whole.t1 - this.whole.t0 && this.view.o1 - this.view.o0 >= this.whole.o1 - this.whole.o0) return;
    event.preventDefault();
    const [x, y] = this.at(event), box = this.canvasBox();
    this.zoom(factor, (x - box.x) / box.width, (box.y + box.height - y) / box.height, event.shiftKey ? "t" : event.altKey ? "o" : "");
  }
  zoom(factor, across, upward, only = "") {
    const view = { ...this.view };
    const scale = (low, high, share, least, limits) => {
      const span = Math.max(Math.min((view[high] - view[low]) * factor, limits[1] - limits[0]), least);
      const fixed = view[low] + (view[high] - view[low]) * share;
      const start = Math.min(Math.max(fixed - span * share, limits[0]), limits[1] - span);
      [view[low], view[high]] = [start, start + span];
    };
    if (only !== "o") scale("t0", "t1", across, 1e-6, [this.whole.t0, this.whole.t1]);
    if (only !== "t") scale("o0", "o1", upward, 16, [this.whole.o0, this.whole.o1]);
    this.look(view);
  }
  pan(across, upward) {
    const view = { ...this.view };
    for (const [low, high, share] of [["t0", "t1", across], ["o0", "o1", upward]]) {
      const span = view[high] - view[low];
      view[low] = Math.min(Math.max(view[low] + share * span, this.whole[low]), this.whole[high] - span);
      view[high] = view[low] + span;
    }
    this.look(view);
  }
  press(event) {
    this.pressed = { at: this.at(event), last: this.at(event) };
    this.canvas.setPointerCapture(event.pointerId);
  }
  move(event) {
    const [x, y] = this.at(event);
    if (this.pressed) {
      const box = this.canvasBox(), [lastX, lastY] = this.pressed.last;
      this.pressed.last = [x, y];
      this.tip.hidden = true;
      this.pan(-(x - lastX) / box.width, (y - lastY) / box.height);
      return;
    }
    const said = this.told(x, y);
    this.tip.hidden = !said;
    this.tip.textContent = said;
    this.tip.style.left = Math.min(x + 14, Math.max(0, this.canvas.clientWidth - 300)) + "px";
    this.tip.style.top = y + 16 + "px";
  }
  release(event) {
    const [x, y] = this.at(event), pressed = this.pressed;
    this.pressed = null;
    if (!pressed || Math.hypot(x - pressed.at[0], y - pressed.at[1]) > 4) return;
    const at = this.hit(x, y);
    if (at !== null) this.pick(at, true);
  }
  // Selects a request; it is brought into view.
  pick(at, tell) {
    this.picked = at;
    const { t, d, o, r } = this.found.rows, { t0, t1, o0, o1 } = this.view;
    const outside = (t[at] + (d[at] || 0)) / 1e9 < t0 || t[at] / 1e9 > t1 || o[at] + r[at] < o0 || o[at] > o1;
    if (outside) this.pan((t[at] / 1e9 - (t0 + t1) / 2) / (t1 - t0), (o[at] - (o0 + o1) / 2) / (o1 - o0));
    else this.draw();
    if (tell) this.selected(at);
  }
  step(by) {
    const shown = this.inView(), place = shown.indexOf(this.picked);
    const next = shown[place < 0 ? 0 : place + by];
    if (next !== undefined) this.pick(next, true);
  }
  key(event) {
    const acts = {
      ArrowLeft: () => this.pan(-0.1, 0), ArrowRight: () => this.pan(0.1, 0), ArrowUp: () => this.pan(0, 0.1), ArrowDown: () => this.pan(0, -0.1),
      "+": () => this.zoom(0.7, 0.5, 0.5), "=": () => this.zoom(0.7, 0.5, 0.5), "-": () => this.zoom(1.4, 0.5, 0.5),
      0: () => this.reset(), Home: () => this.reset(), n: () => this.step(1), p: () => this.step(-1),
    };
    if (!acts[event.key] || !this.view || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    acts[event.key]();
  }
}

function requestText(rows, at) {
  const asked = rows.n[at] !== null && rows.n[at] !== rows.r[at] ? ` of ${words.size(rows.n[at])} requested` : "";
  const took = rows.d[at] === null ? "" : `, took ${words.seconds(rows.d[at] / 1e9)} as recorded`;
  return `${rows.w[at] ? "Write" : "Read"} of ${words.count(rows.r[at])} B${asked} at byte ${words.count(rows.o[at])}, `
    + `${(rows.t[at] / 1e9).toFixed(6)} s${took}, ${threadName(rows.k[at])}`;
}

function threadName(id) {
  return page.threads[id] || "thread " + id;
}

function digits(low, high, unit) {
  const step = (high - low) / 5 / unit;
  return Math.max(0, Math.min(9, Math.ceil(-Math.log10(step))));
}

function timeLabel(low, high) {
  const places = digits(low, high, 1);
  return (value) => value.toFixed(places) + SPACE + "s";
}

function byteLabel(low, high) {
  const [unit, name] = [[1e12, "TB"], [1e9, "GB"], [1e6, "MB"], [1e3, "kB"], [1, "B"]].find(([factor]) => high >= factor) || [1, "B"];
  const places = digits(low, high, unit);
  return (value) => (value / unit).toFixed(places) + SPACE + name;
}
