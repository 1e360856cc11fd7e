// Every head's figures, sorted by a click on a column's name.
const columns = [
  ["layer · head", (n) => n],
  ["looks at", (n) => facts.figures[n].looks_at.join(", ")],
  ["entropy", (n) => facts.figures[n].entropy],
  ["distance", (n) => facts.figures[n].distance],
  ...facts.targets.map((target, place) => [SIGNS[target], (n) => facts.figures[n].shares[place], `share to ${lookText(target)}`]),
];
const order = { column: 0, down: false };

function fillTable() {
  const head = columns.map(([name, , label], column) => {
    const button = element("button", { type: "button", textContent: name, title: label || "" });
    if (label) button.setAttribute("aria-label", label);
    button.addEventListener("click", () => sortBy(column));
    return element("th", { className: column > 1 ? "n" : "", scope: "col" }, button);
  });
  $("figures").append(element("thead", {}, element("tr", {}, ...head)), element("tbody"));
  const rows = facts.figures.map((one, number) => {
    const [layer, place] = [Math.floor(number / heads.length), number % heads.length];
    const button = element("button", { type: "button", textContent: `${layers[layer]} · ${heads[place]}` });
    button.setAttribute("aria-label", `Show layer ${layers[layer]}, head ${heads[place]}`);
    button.addEventListener("click", () => change({ layer, head: place }));
    const cells = columns.slice(1).map(([, valueOf], column) => {
      const value = valueOf(number);
      const text = column === 0 ? value || "–" : two(value);
      return element("td", { className: column ? "n" : "", textContent: text });
    });
    const row = element("tr", {}, element("th", { scope: "row" }, button), ...cells);
    row.dataset.number = number;
    return row;
  });
  $("figures").tBodies[0].append(...rows);
  showOrder();
}

function sortBy(column) {
  // numbers: the largest first, at first
  order.down = order.column === column ? !order.down : column > 0;
  order.column = column;
  const [, valueOf] = columns[column];
  const rows = [...$("figures").tBodies[0].rows];
  const sign = order.down ? -1 : 1;
  rows.sort((a, b) => {
    const [one, other] = [valueOf(Number(a.dataset.number)), valueOf(Number(b.dataset.number))];
    return sign * (one < other ? -1 : one > other ? 1 : 0) || a.dataset.number - b.dataset.number;
  });
  $("figures").tBodies[0].append(...rows);
  showOrder();
}

function showOrder() {
  [...$("figures").tHead.rows[0].cells].forEach((cell, column) => {
    if (column === order.column) cell.setAttribute("aria-sort", order.down ? "descending" : "ascending");
    else cell.removeAttribute("aria-sort");
  });
}

views.push({
  needs: ["layer", "head"],
  draw() {
    for (const row of $("figures").tBodies[0].rows) {
      row.classList.toggle("chosen", Number(row.dataset.number) === chosen());
    }
  },
});
