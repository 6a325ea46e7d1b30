"use strict";
// Tables whose rows stand as data in the page: sorted by their heads, searched, shown in parts.
for (const table of document.querySelectorAll("table[data-rows]")) {
  const { columns, names, rows } = JSON.parse(document.getElementById(table.dataset.rows).textContent);
  const first = 25, more = 100;
  const natural = new Intl.Collator("en", { numeric: true, sensitivity: "base" });
  const figures = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });
  const percent = (share) => (share > 0 && share < 0.0005 ? "<0.1" : figures.format(100 * share));

  const shown = {
    text: (value) => value,
    count: (value) => value.toLocaleString("en"),
    share: (value) => `${percent(value)} %`,
    signed: (value) => (value > 0 ? "+" : "") + figures.format(value),
    number: (value) => figures.format(value),
    shift: ([name, from, to]) => `${names[name]}: ${percent(from)} → ${percent(to)} %`,
    need: (value) => value === 0 ? "enough" : value > 1e6 ? "over 1,000,000"
      : `about ${Number(value.toPrecision(2)).toLocaleString("en")}`,
  };
  const key = (value, kind) => (value === null ? null : kind === "shift" ? value[2] - value[1] : value);
  const isText = (kind) => kind === "text" || kind === "shift";
  const cell = (value, column) => (value === null ? column.none ?? "" : shown[column.kind](value));
  const words = rows.map((row) =>
    columns.map((column, k) => (isText(column.kind) ? cell(row[k], column) : "")).join("\n").toLowerCase());

  let order = rows.map((_, k) => k), limit = first, sorted = null, falling = false;
  const box = table.closest("[data-box]");
  const search = box.querySelector("input[type=search]"), said = box.querySelector("[role=status]");
  const button = box.querySelector("button.more");

  const head = table.createTHead().insertRow();
  columns.forEach((column, k) => {
    const th = document.createElement("th");
    th.scope = "col";
    if (!isText(column.kind)) th.className = "n";
    const sort = document.createElement("button");
    sort.type = "button";
    sort.textContent = column.head;
    if (column.title) sort.title = column.title;
    sort.addEventListener("click", () => {
      // Names rise first, numbers fall: the largest is looked for more often.
      falling = sorted === k ? !falling : column.kind !== "text";
      sorted = k;
      sortRows();
      show();
    });
    th.append(sort);
    head.append(th);
  });
  const body = table.createTBody();

  function sortRows() {
    const kind = columns[sorted].kind, sign = falling ? -1 : 1;
    const keys = rows.map((row) => key(row[sorted], kind));
    order.sort((a, b) => {
      const x = keys[a], y = keys[b];
      if (x === null || y === null) return (x === null) - (y === null) || a - b;
      return sign * (kind === "text" ? natural.compare(x, y) : x - y) || a - b;
    });
    [...head.cells].forEach((th, k) => {
      if (k === sorted) th.setAttribute("aria-sort", falling ? "descending" : "ascending");
      else th.removeAttribute("aria-sort");
    });
  }

  function show() {
    const asked = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = order.filter((k) => asked.every((word) => words[k].includes(word)));
    const part = document.createDocumentFragment();
    for (const k of found.slice(0, limit)) {
      const tr = document.createElement("tr");
      columns.forEach((column, c) => {
        const td = document.createElement(c === 0 ? "th" : "td");
        if (c === 0) td.scope = "row";
        if (c > 0) td.className = isText(column.kind) ? "t" : "n";
        td.textContent = cell(rows[k][c], column);
        tr.append(td);
      });
      part.append(tr);
    }
    body.replaceChildren(part);
    const n = Math.min(limit, found.length);
    said.textContent = `${n.toLocaleString("en")} of ${found.length.toLocaleString("en")} shown` +
      (found.length < rows.length ? `, of ${rows.length.toLocaleString("en")} in all` : "");
    button.hidden = n >= found.length;
    button.textContent = `Show ${Math.min(more, found.length - n).toLocaleString("en")} more`;
  }

  search.addEventListener("input", () => { limit = first; show(); });
  button.addEventListener("click", () => { limit += more; show(); });
  show();
}
addEventListener("beforeprint", () => {
  for (const part of document.querySelectorAll("details")) part.open = true;
});
