// Neuron view: a query and the keys it meets, dimension by dimension.
const width = facts.vector_size;
const vectors = {};
let key = null; // the token whose key is taken apart
if (width) {
  for (const name of ["queries", "keys"]) {
    vectors[name] = {
      steps: new Int8Array(bytes(name).buffer),
      scales: new Float32Array(bytes(`${name[0]}-scales`).buffer),
    };
  }
}

function vectorOf(name, token) {
  const place = chosen() * size + token;
  const { steps: of, scales } = vectors[name];
  return Array.from(of.subarray(place * width, (place + 1) * width), (step) => step * scales[place]);
}
const sum = (numbers) => numbers.reduce((a, b) => a + b, 0);
const productOf = (a, b) => a.map((value, n) => value * b[n]);
const greatest = (numbers) => Math.max(...numbers.map(Math.abs), 1e-9);

function fillVectors() {
  $("with-vectors").hidden = !width;
  $("no-vectors").hidden = Boolean(width);
  if (!width) {
    $("no-vectors").textContent = facts.notes.find((note) => note.startsWith("Queries")) || "";
    return;
  }
  $("root").textContent = width;
  for (const id of ["query", "keys"]) $(id).addEventListener("change", drawVectors);
  $("vectors").addEventListener("pointermove", pointAtDimension);
  $("vectors").addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (button) chooseKey(Number(button.dataset.place));
  });
  $("by-dimension").addEventListener("toggle", drawDimensions);
}

function strip(numbers, greatestOfAll) {
  const canvas = element("canvas");
  paint(canvas, 1, width, "signed", (_, n) => Math.round(127.5 + (127.5 * numbers[n]) / greatestOfAll));
  canvas.setAttribute("aria-hidden", "true");
  return canvas;
}

function fillQueries() {
  const before = $("query").value;
  $("query").replaceChildren(...shown("from").map((n) => new Option(`${n + 1} ${tokens[n]}`, n)));
  if ([...$("query").options].some((option) => option.value === before)) $("query").value = before;
}

function keysShown(query) {
  const all = shown("to").map((n) => [n, weightOf(chosen(), query, n) ?? -1]); // -1: left out
  const count = Number($("keys").value);
  return count ? byWeight(all).slice(0, count) : all;
}

function drawVectors() {
  const table = $("vectors");
  const query = $("query").value === "" ? null : Number($("query").value);
  const some = query === null ? [] : keysShown(query);
  if (!some.length) {
    table.replaceChildren();
    $("vector-readout").textContent = NOTHING;
    $("by-dimension").hidden = true;
    return;
  }
  const asked = vectorOf("queries", query);
  const met = some.map(([n]) => vectorOf("keys", n));
  const products = met.map((one) => productOf(asked, one));
  const most = {
    key: greatest(met.flat()),
    product: greatest(products.flat()),
    left: weightText(restOf(chosen(), query).most),
  };
  const cell = (name, className, ...children) => element(name, { className }, ...children);
  const title = (text, className = "") => element("th", { textContent: text, className, scope: "col" });
  const rows = some.map(([n, weight], at) => {
    const button = element("button", { type: "button", textContent: tokens[n] });
    button.setAttribute("aria-label", `${tokens[n]}, token ${n + 1}: dimension by dimension`);
    const row = element("tr", {}, element("th", { scope: "row" }, button), cell("td", "strip", strip(met[at], most.key)),
      cell("td", "strip", strip(products[at], most.product)), cell("td", "n", two(sum(products[at]) / Math.sqrt(width))), cell("td", "n", weight < 0 ? `≤ ${most.left}` : weightText(weight)));
    button.dataset.place = row.dataset.place = n;
    return row;
  });
  const own = element("tr", {}, title(`query: ${tokens[query]}`), cell("td", "strip", strip(asked, greatest(asked))), cell("td"), cell("td"), cell("td"));
  own.dataset.query = "1";
  const head = element("tr", {}, title("key"), title("its vector"), title("query × key"), title("score", "n"), title("weight", "n"));
  table.replaceChildren(element("thead", {}, head), element("tbody", {}, own, ...rows));
  $("vector-readout").textContent = "Point at a dimension for its numbers; choose a key for all of them as a table.";
  chooseKey(some.some(([n]) => n === key) ? key : some[0][0]);
}

function pointAtDimension(event) {
  const canvas = event.target.closest("canvas");
  if (!canvas) return;
  const box = canvas.getBoundingClientRect();
  const n = Math.min(width - 1, Math.max(0, Math.floor(((event.clientX - box.left) / box.width) * width)));
  const asked = vectorOf("queries", Number($("query").value))[n];
  const row = canvas.closest("tr");
  const start = `Dimension ${n + 1} of ${width}: query ${two(asked)}`;
  if (row.dataset.query) {
    $("vector-readout").textContent = start;
    return;
  }
  const met = vectorOf("keys", Number(row.dataset.place))[n];
  $("vector-readout").textContent = `${start} × key ${two(met)} (${tokens[row.dataset.place]}) = ${two(asked * met)}`;
}

function chooseKey(place) {
  key = place;
  for (const row of $("vectors").querySelectorAll("[data-place]")) {
    if (row.tagName === "TR") row.classList.toggle("chosen", Number(row.dataset.place) === key);
  }
  const query = tokens[$("query").value];
  $("by-dimension").hidden = false;
  $("by-dimension").firstElementChild.textContent = `Query of ${query}, key of ${tokens[key]}, dimension by dimension`;
  drawDimensions();
}

function drawDimensions() {
  if (!$("by-dimension").open || key === null) return;
  const [asked, met] = [vectorOf("queries", Number($("query").value)), vectorOf("keys", key)];
  const head = ["dimension", "query", "key", "query × key"].map((text) => element("th", { textContent: text, className: "n", scope: "col" }));
  const rows = asked.map((value, n) => {
    const cells = [n + 1, ...[value, met[n], value * met[n]].map((number) => number.toFixed(3))];
    return element("tr", {}, ...cells.map((text) => element("td", { textContent: text, className: "n" })));
  });
  $("by-dimension").querySelector("table").replaceChildren(element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...rows));
}

views.push({
  needs: ["layer", "head", "special", "direction", "colours", "held"],
  draw(changes) {
    if (!width) return;
    if (changes.some((name) => ["special", "direction"].includes(name))) fillQueries();
    else if (changes.includes("held")) {
      // a token that is held on the left is the query, one on the right the key
      if (!state.held || !state.token) return;
      if (state.token.side === "from") $("query").value = state.token.place;
      else key = state.token.place;
    }
    drawVectors();
  },
});
