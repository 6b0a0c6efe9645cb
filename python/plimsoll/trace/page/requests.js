// The one way by which the page gets requests. Today it answers from what is embedded; a page server may answer the same question
// for any window later. `from`, `to`: seconds. Gives {requests, density} or {requests, rows, indices}: `indices` of those that
// began in the window, in `rows`: columns t, d (start and duration, ns), o (offset), n, r (bytes asked for and given), w, k (thread).
async function requests(file, from, to) {
  const picture = page.pictures[file.index];
  if (!picture) return { requests: 0, rows: null, indices: [] };
  if (picture.density) return { requests: picture.requests, density: picture.density };
  const t = picture.rows.t, first = below(t, from * 1e9), last = below(t, to * 1e9);
  const indices = [];
  for (let at = first; at < last; at += 1) indices.push(at);
  return { requests: picture.requests, rows: picture.rows, indices };
}

// How many of the sorted values are below a bound.
function below(values, bound) {
  let low = 0, high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] < bound) low = middle + 1;
    else high = middle;
  }
  return low;
}

// Where requests of a file are: seconds and bytes.
function extent(file) {
  const picture = page.pictures[file.index];
  let t0 = file.first_s, t1 = file.last_s, end = 1;
  if (picture && picture.density) {
    const { start_ns, column_ns, columns, start_byte, row_bytes, rows } = picture.density;
    t0 = start_ns / 1e9;
    t1 = (start_ns + column_ns * columns) / 1e9;
    end = start_byte + row_bytes * rows;
  } else if (picture) {
    const { t, d, o, r } = picture.rows;
    t0 = t[0] / 1e9;
    t1 = t0;
    for (let at = 0; at < t.length; at += 1) {
      t1 = Math.max(t1, (t[at] + (d[at] || 0)) / 1e9);
      end = Math.max(end, o[at] + r[at]);
    }
  }
  const pad = Math.max((t1 - t0) * 0.02, 1e-6);
  return { t0: t0 - pad, t1: t1 + pad, o0: 0, o1: end * 1.04 };
}

// The command that shows a window of a file exactly.
function exactCommand(file, view) {
  const name = file.path.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&");
  const quoted = "'^" + name.replace(/'/g, "'\\''") + "$'";
  const time = (value) => Math.max(0, value).toFixed(6) + "s";
  return `plimsoll trace show ${page.trace} --file ${quoted} --from ${time(view.t0)} --to ${time(view.t1)} --html exact.html`;
}
