// A table of many rows: sorted by any column, shown in pages. Nothing but text goes into its cells.
// columns: {name, title, value(row) -> number or text, show(row) -> text, wide, left}; chosen(row) is called at a click or Enter.
class List {
  constructor(place, columns, { size = 100, sort = null, down = true, chosen = null, mark = null, label }) {
    Object.assign(this, { columns, size, sort, down, chosen, mark, rows: [], at: 0, picked: null });
    this.table = element("table", { className: "list" });
    this.table.setAttribute("aria-label", label);
    this.head = this.table.createTHead().insertRow();
    this.body = this.table.createTBody();
    for (const column of columns) this.head.append(this.heading(column));
    const wide = element("div", { className: "wide" });
    wide.append(this.table);
    this.pager = element("p", { className: "pager" });
    this.before = this.turner("‹ before", -1);
    this.told = element("span");
    this.told.setAttribute("aria-live", "polite");
    this.after = this.turner("next ›", 1);
    this.pager.append(this.before, this.told, this.after);
    place.append(wide, this.pager);
  }
  heading(column) {
    const cell = element("th", { className: column.left ? "" : "n" }), button = element("button", { type: "button", className: "sort" });
    cell.scope = "col";
    button.textContent = column.name;
    if (column.title) button.title = column.title;
    button.addEventListener("click", () => {
      this.down = this.sort === column ? !this.down : !column.left;
      this.sort = column;
      this.fill(this.rows);
    });
    cell.append(button);
    column.cell = cell;
    return cell;
  }
  turner(said, step) {
    const button = element("button", { type: "button" });
    button.textContent = said;
    button.addEventListener("click", () => this.turn(this.at + step * this.size));
    return button;
  }
  fill(rows) {
    this.rows = rows.slice();
    if (this.sort) {
      const { value } = this.sort, sign = this.down ? -1 : 1;
      const keyed = this.rows.map((row, place) => [value(row), place, row]);
      // What is not known comes last, whichever way.
      const none = (each) => each === null || each === undefined;
      keyed.sort(([a, i], [b, j]) => none(a) || none(b) ? none(a) - none(b) || i - j : a < b ? -sign : a > b ? sign : i - j);
      this.rows = keyed.map(([, , row]) => row);
    }
    for (const column of this.columns) {
      if (column === this.sort) column.cell.setAttribute("aria-sort", this.down ? "descending" : "ascending");
      else column.cell.removeAttribute("aria-sort");
    }
    this.turn(0);
  }
  turn(at) {
    this.at = Math.max(0, Math.min(at, Math.floor(Math.max(0, this.rows.length - 1) / this.size) * this.size));
    const shown = this.rows.slice(this.at, this.at + this.size);
    this.body.replaceChildren(...shown.map((row) => this.line(row)));
    const end = this.at + shown.length;
    this.told.textContent = this.rows.length ? ` ${words.count(this.at + 1)} to ${words.count(end)} of ${words.count(this.rows.length)} ` : "nothing";
    this.before.disabled = this.at === 0;
    this.after.disabled = end >= this.rows.length;
    this.pager.classList.toggle("single", this.rows.length <= this.size);
  }
  line(row) {
    const line = document.createElement("tr");
    for (const column of this.columns) {
      const cell = line.insertCell();
      cell.className = column.left ? "name" : "n";
      const said = column.show(row);
      if (column.left && this.chosen) {
        // A button, so that it can be reached by the keyboard.
        const button = element("button", { type: "button", className: "pick" });
        button.textContent = said;
        cell.append(button);
      } else cell.textContent = said;
    }
    if (this.mark) this.mark(line, row);
    if (this.chosen) line.addEventListener("click", () => this.chosen(row));
    if (row === this.picked) line.setAttribute("aria-selected", "true");
    return line;
  }
  // Marks a row and turns to its page.
  pick(row) {
    this.picked = row;
    const place = this.rows.indexOf(row);
    this.turn(place < 0 ? this.at : Math.floor(place / this.size) * this.size);
    const line = place < 0 ? null : this.body.rows[place - this.at];
    if (line) {
      const box = this.table.parentElement, top = line.offsetTop - box.clientHeight / 2;
      if (box.scrollHeight > box.clientHeight) box.scrollTop = top;
    }
  }
}

function element(name, values = {}) {
  return Object.assign(document.createElement(name), values);
}
