// Histograms and time lines.
const BOX = { left: 64, right: 26, top: 26, bottom: 36 };

function inner(surface) {
  return { x: BOX.left, y: BOX.top, width: surface.width - BOX.left - BOX.right, height: surface.height - BOX.top - BOX.bottom };
}

// Ranges that double, starting at a unit; reads are filled, writes are framed next to them. `reads`, `writes`: rows of from, to, count.
function histogram(surface, colours, { title, reads, writes, unit = 1, show: label }) {
  const all = [...reads, ...writes], box = inner(surface);
  if (!all.length) return surface.text(box.x, box.y + 20, "no requests", colours.muted);
  // The first range begins at 0: it is drawn one step below its end.
  const level = ([from, to]) => Math.round(Math.log2((from > 0 ? from : to / 2) / unit));
  const low = Math.min(...all.map(level)), high = Math.max(...all.map(level)) + 1;
  const top = Math.max(...all.map((bin) => bin[2]));
  const values = [];
  for (let at = low; at <= high; at += 1) values.push(at);
  const x = { low, high, values, show: (at) => label(2 ** at * unit), title };
  const { right, up } = axes(surface, box, x, { low: 0, high: top * 1.08, show: thousands, title: "requests" }, colours);
  const both = reads.length && writes.length, wide = box.width / (high - low);
  for (const [bins, colour, framed, shift] of [[reads, colours.read, false, 0], [writes, colours.write, true, both ? 0.5 : 0]]) {
    for (const bin of bins) {
      const left = right(level(bin)) + wide * shift + 1, width = Math.max(wide * (both ? 0.5 : 1) - 2, 1.5), height = Math.max(box.y + box.height - up(bin[2]), 1.5);
      surface.rect(left, box.y + box.height - height, width, height, colour, framed ? 0.35 : 0.9);
      if (framed) surface.frame(left, box.y + box.height - height, width, height, colour, 1.5);
    }
  }
  return undefined;
}

// Bytes of the run by time: read upward, written downward; below, calls about files.
function runLine(surface, colours) {
  const line = page.timeline, count = line.reads.length;
  const end = line.start_s + line.bin_s * count, gap = 44, upper = (surface.height - BOX.top - BOX.bottom - gap) * 0.62;
  const box = { x: BOX.left, y: BOX.top, width: surface.width - BOX.left - BOX.right, height: upper };
  const rate = (values) => values.map((value) => value / line.bin_s);
  const reads = rate(line.read_bytes), writes = rate(line.write_bytes);
  const top = Math.max(...reads, 1), bottom = Math.max(...writes, 0);
  const x = { low: line.start_s, high: end, show: timeLabel(line.start_s, end) };
  const places = [...steps(0, top, 3), ...steps(0, bottom, 3).slice(1).map((value) => -value)];
  const { right, up } = axes(surface, box, x, { low: -bottom, high: top, values: places, show: (value) => words.speed(Math.abs(value)), title: "read ↑  written ↓" }, colours);
  // Whole pixels, or the seams between bars would shine through.
  const bars = (values, scale, colour, opacity) => values.forEach((value, at) => {
    if (!value) return;
    const left = Math.round(scale.right(line.start_s + at * line.bin_s)), next = Math.round(scale.right(line.start_s + (at + 1) * line.bin_s));
    const zero = scale.up(0), tip = scale.up(value);
    surface.rect(left, Math.min(zero, tip), Math.max(next - left, 1), Math.max(Math.abs(zero - tip), 1), colour, opacity);
  });
  bars(reads, { right, up }, colours.read, 1);
  bars(writes.map((value) => -value), { right, up }, colours.write, 1);
  const second = { ...box, y: box.y + upper + gap, height: surface.height - BOX.bottom - (box.y + upper + gap) };
  const data = rate(line.reads.map((value, at) => value + line.writes[at]));
  const calls = rate(line.reads.map((value, at) => value + line.writes[at] + line.metadata[at])), most = Math.max(...calls, 1);
  const y = { low: 0, high: most, values: steps(0, most, 2), show: thousands, title: "calls on files per second (strong: reads and writes)" };
  const scale = axes(surface, second, { ...x, title: "time since the beginning of the trace" }, y, colours);
  bars(calls, scale, colours.other, 0.45);
  bars(data, scale, colours.ink, 0.8);
}

function thousands(value) {
  return words.scaled(value, [[1e6, "M"], [1e3, "k"], [1, ""]]).trim();
}

const ROW = 17;

// Who is busy when: a row for each file; read above, written below, other calls grey.
function fileLines(surface, colours, files) {
  const line = page.timeline, names = Math.min(260, surface.width * 0.34);
  const box = { x: names + 8, y: 8, width: surface.width - names - 34, height: files.length * ROW };
  const end = line.start_s + line.bin_s * Math.max(line.reads.length, 1);
  const { right } = axes(surface, box, { low: line.start_s, high: end, show: timeLabel(line.start_s, end), title: "time since the beginning of the trace" }, { low: 0, high: 1, values: [], show: String }, colours);
  files.forEach((file, at) => {
    const y = box.y + at * ROW;
    surface.text(names, y + 12, ending(file.path, Math.floor(names / 6.9)), colours.ink, { anchor: "end" });
    surface.lines([right(file.first_s), y + ROW / 2, Math.max(right(file.last_s), right(file.first_s) + 1), y + ROW / 2], colours.line, 1);
    const most = Math.log1p(Math.max(1, ...file.timeline.map(([, , read, written]) => Math.max(read, written))));
    for (const [bin, , read, written] of file.timeline) {
      const x = Math.round(right(line.start_s + bin * line.bin_s)), wide = Math.max(Math.round(right(line.start_s + (bin + 1) * line.bin_s)) - x, 2);
      const strength = (bytes) => 0.35 + 0.65 * Math.log1p(bytes) / most;
      if (!read && !written) surface.rect(x, y + 6, wide, 5, colours.other, 0.8);
      if (read) surface.rect(x, y + 2, wide, written ? 6 : 13, colours.read, strength(read));
      if (written) {
        surface.rect(x, y + (read ? 9 : 2), wide, read ? 6 : 13, colours.write, strength(written));
        surface.lines([x, y + 15, x + wide, y + 15], colours.write, 1.5);
      }
    }
  });
}

function ending(text, room) {
  return text.length <= room ? text : "…" + text.slice(1 - room);
}
