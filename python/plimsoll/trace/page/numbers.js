// Numbers as the rest of the lab writes them: three digits, commas, units that suit. null and undefined are a dash.
const SPACE = "\u00a0", UNKNOWN = "–";

const words = {
  count(value) {
    return value === null || value === undefined ? UNKNOWN : String(value).replace(/\B(?=(\d{3})+$)/g, ",");
  },
  number(value, digits = 3) {
    if (value === null || value === undefined || !isFinite(value)) return UNKNOWN;
    if (value === 0) return "0";
    const rounded = Number(value.toPrecision(digits));
    const places = Math.max(0, digits - 1 - Math.floor(Math.log10(Math.abs(rounded))));
    const [whole, rest] = rounded.toFixed(Math.min(places, 12)).split(".");
    return whole.replace(/\B(?=(\d{3})+$)/g, ",") + (rest ? "." + rest : "");
  },
  scaled(value, units, digits = 3) {
    if (value === null || value === undefined) return UNKNOWN;
    const found = units.find(([factor]) => Math.abs(value) >= factor) || units[units.length - 1];
    return words.number(value / found[0], digits) + SPACE + found[1];
  },
  size(bytes) {
    return bytes !== null && bytes !== undefined && Math.abs(bytes) < 1000
      ? Math.round(bytes) + SPACE + "B"
      : words.scaled(bytes, [[1e12, "TB"], [1e9, "GB"], [1e6, "MB"], [1e3, "kB"]]);
  },
  // Powers of two, as the ends of ranges that double.
  binary(bytes) {
    const found = [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]].find(([factor]) => bytes >= factor) || [1, "B"];
    return Math.round(bytes / found[0]) + SPACE + found[1];
  },
  seconds(value) {
    return value === 0 ? "0" + SPACE + "s"
      : words.scaled(value, [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]]);
  },
  speed(value) {
    return words.scaled(value, [[1e9, "GB/s"], [1e6, "MB/s"], [1e3, "kB/s"], [1, "B/s"]]);
  },
  share(value) {
    return value === null || value === undefined ? UNKNOWN : words.number(value * 100, 2) + SPACE + "%";
  },
  // A time of the engine: [recorded, low, corrected, high]. A range where tracing was most of the run.
  time(times) {
    if (!times) return UNKNOWN;
    if (page.interval_only && times[1] !== null) {
      const low = words.seconds(times[1]), high = words.seconds(times[3]);
      return low === high ? low : low + " to " + high;
    }
    return words.seconds(best(times));
  },
};

function best(times) {
  return times ? (times[2] === null ? times[0] : times[2]) : null;
}

// Values between two ends at which an axis is labelled: 1, 2 or 5 times a power of ten.
function steps(low, high, most) {
  const span = high - low;
  if (!(span > 0)) return [low];
  const rough = span / most, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= rough * 0.999);
  const found = [];
  for (let at = Math.ceil(low / step); at * step <= high + step * 1e-6; at += 1) found.push(at * step);
  return found;
}
