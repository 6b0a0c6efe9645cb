// What charts are drawn on: a canvas for the screen, SVG for a file. Both take the same strokes, so a chart is written once.
const FONT = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif";
const PAPER = { paper: "#ffffff", ink: "#1b2530", muted: "#5a6775", line: "#d9e0e6", read: "#0a5c8f", write: "#c95a00", other: "#6b7785" };

// Colours of the page as it is now: light, dark or on paper.
function theme() {
  const style = getComputedStyle(document.documentElement);
  const found = {};
  for (const name of Object.keys(PAPER)) found[name] = style.getPropertyValue("--" + name).trim() || PAPER[name];
  return found;
}

class CanvasSurface {
  constructor(canvas, width, height, scale) {
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
    this.context = canvas.getContext("2d");
    this.context.scale(scale, scale);
    this.width = width;
    this.height = height;
  }
  rect(x, y, width, height, colour, opacity = 1) {
    this.context.globalAlpha = opacity;
    this.context.fillStyle = colour;
    this.context.fillRect(x, y, width, height);
    this.context.globalAlpha = 1;
  }
  frame(x, y, width, height, colour, line = 1) {
    this.context.strokeStyle = colour;
    this.context.lineWidth = line;
    this.context.strokeRect(x, y, width, height);
  }
  // Many lines of one colour: [x1, y1, x2, y2, ...].
  lines(ends, colour, width = 1, opacity = 1) {
    const context = this.context;
    context.globalAlpha = opacity;
    context.strokeStyle = colour;
    context.lineWidth = width;
    context.beginPath();
    for (let at = 0; at < ends.length; at += 4) {
      context.moveTo(ends[at], ends[at + 1]);
      context.lineTo(ends[at + 2], ends[at + 3]);
    }
    context.stroke();
    context.globalAlpha = 1;
  }
  text(x, y, said, colour, { anchor = "start", size = 11, turned = false } = {}) {
    const context = this.context;
    context.save();
    context.translate(x, y);
    if (turned) context.rotate(-Math.PI / 2);
    context.font = size + "px " + FONT;
    context.fillStyle = colour;
    context.textAlign = anchor === "middle" ? "center" : anchor;
    context.fillText(said, 0, 0);
    context.restore();
  }
  clipped(x, y, width, height, draw) {
    this.context.save();
    this.context.beginPath();
    this.context.rect(x, y, width, height);
    this.context.clip();
    draw();
    this.context.restore();
  }
}

class SvgSurface {
  constructor(width, height) {
    this.root = this.element("svg", { xmlns: "http://www.w3.org/2000/svg", width, height, viewBox: `0 0 ${width} ${height}` });
    this.place = this.root;
    this.width = width;
    this.height = height;
  }
  element(name, values) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const key of Object.keys(values)) if (key !== "xmlns") made.setAttribute(key, values[key]);
    return made;
  }
  add(name, values) {
    const made = this.element(name, values);
    this.place.append(made);
    return made;
  }
  rect(x, y, width, height, colour, opacity = 1) {
    this.add("rect", { x: short(x), y: short(y), width: short(width), height: short(height), fill: colour, "fill-opacity": short(opacity) });
  }
  frame(x, y, width, height, colour, line = 1) {
    this.add("rect", { x: short(x), y: short(y), width: short(width), height: short(height), fill: "none", stroke: colour, "stroke-width": line });
  }
  lines(ends, colour, width = 1, opacity = 1) {
    const parts = [];
    for (let at = 0; at < ends.length; at += 4) parts.push(`M${short(ends[at])} ${short(ends[at + 1])}L${short(ends[at + 2])} ${short(ends[at + 3])}`);
    this.add("path", { d: parts.join(""), stroke: colour, "stroke-width": width, "stroke-opacity": opacity, fill: "none" });
  }
  text(x, y, said, colour, { anchor = "start", size = 11, turned = false } = {}) {
    const values = { x: short(x), y: short(y), fill: colour, "font-size": size, "font-family": FONT, "text-anchor": anchor };
    if (turned) values.transform = `rotate(-90 ${short(x)} ${short(y)})`;
    this.add("text", values).textContent = said;
  }
  clipped(x, y, width, height, draw) {
    const id = "clip";
    const clip = this.add("clipPath", { id });
    clip.append(this.element("rect", { x, y, width, height }));
    const before = this.place;
    this.place = this.add("g", { "clip-path": `url(#${id})` });
    draw();
    this.place = before;
  }
}

function short(value) {
  return Number(value.toFixed(2));
}

// The frame of a chart with its labelled axes. `x`, `y`: {low, high, title, show, values}.
function axes(surface, box, x, y, colours) {
  const right = (value) => box.x + (value - x.low) / (x.high - x.low || 1) * box.width;
  const up = (value) => box.y + box.height - (value - y.low) / (y.high - y.low || 1) * box.height;
  const labelled = [];
  for (const value of y.values || steps(y.low, y.high, 5)) {
    if (labelled.some((other) => Math.abs(other - up(value)) < 12)) continue;
    labelled.push(up(value));
    surface.lines([box.x, up(value), box.x + box.width, up(value)], colours.line, 1, 0.7);
    surface.text(box.x - 6, up(value) + 4, y.show(value), colours.muted, { anchor: "end" });
  }
  let last = -Infinity;
  for (const value of x.values || steps(x.low, x.high, Math.max(2, Math.floor(box.width / 110)))) {
    const said = x.show(value), half = said.length * 3.2;
    if (right(value) - half < last + 6) continue;
    last = right(value) + half;
    surface.lines([right(value), box.y + box.height, right(value), box.y + box.height + 4], colours.muted);
    surface.text(right(value), box.y + box.height + 16, said, colours.muted, { anchor: "middle" });
  }
  surface.lines([box.x, box.y + box.height, box.x + box.width, box.y + box.height], colours.muted);
  if (x.title) surface.text(box.x + box.width, box.y + box.height + 31, x.title, colours.muted, { anchor: "end", size: 12 });
  if (y.title) surface.text(box.x, box.y - 8, y.title, colours.muted, { size: 12 });
  return { right, up };
}

// Draws a chart on a canvas of the page, as wide as its place. `draw(surface, colours)`.
function show(canvas, height, draw) {
  const width = canvas.parentElement.clientWidth || 800;
  canvas.style.width = width + "px";
  canvas.style.height = height + "px";
  draw(new CanvasSurface(canvas, width, height, window.devicePixelRatio || 1), theme());
}

// Buttons that save a chart as a file: it is drawn again for white paper.
function savers(place, name, size, draw) {
  const offer = (kind, make) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = kind;
    button.title = "Save this picture as " + kind;
    button.addEventListener("click", () => make((blob) => save(blob, page.name + "-" + name() + "." + kind.toLowerCase())));
    place.append(button);
  };
  const onPaper = (surface) => {
    surface.rect(0, 0, surface.width, surface.height, PAPER.paper);
    draw(surface, PAPER);
    return surface;
  };
  offer("PNG", (give) => {
    const canvas = document.createElement("canvas"), [width, height] = size();
    onPaper(new CanvasSurface(canvas, width, height, 2));
    canvas.toBlob(give, "image/png");
  });
  offer("SVG", (give) => {
    const surface = onPaper(new SvgSurface(...size()));
    give(new Blob([new XMLSerializer().serializeToString(surface.root)], { type: "image/svg+xml" }));
  });
}

function save(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

function fileName(text) {
  return text.replace(/[^A-Za-z0-9._-]+/g, "-").slice(-60);
}
