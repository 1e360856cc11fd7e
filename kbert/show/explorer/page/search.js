// Search by a layer's name, its type, or a variable's name in any format.

const MOST_FOUND = 40;
let found = [];
let marked = -1;

function* searchable() {
  if (generic) {
    for (const row of DATA.generic.rows) yield { id: row.name, text: row.name, under: row.type };
    return;
  }
  const config = current();
  yield { id: ENCODER, text: "Encoder", under: config.L === 1 ? "1 block" : `${config.L} blocks` };
  for (const { row, name, n } of everyLayer(config)) {
    yield { id: name, text: name, under: row.type };
    for (const one of variablesOf({ template: row.name, n }, config)) {
      for (const [format, title] of Object.entries(FORMATS)) {
        const known = one.names[format];
        const part = row.name === NAMES.attention ? `/${one.variable.split("/")[0]}` : "";
        if (known && format !== "kbert") yield { id: name + part, text: known, under: `${title} · ${name}` };
        else if (known) yield { id: name + part, text: known, under: "variable" };
      }
    }
  }
}

function search(query) {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  const hits = [];
  if (!words.length) return hits;
  for (const entry of searchable()) {
    const text = `${entry.text} ${entry.under}`.toLowerCase();
    if (words.every((word) => text.includes(word))) {
      hits.push({ ...entry, rank: rankOf(entry.text.toLowerCase(), query.trim().toLowerCase()) });
      if (hits.length > 2000) break;
    }
  }
  return hits.sort((a, b) => a.rank - b.rank).slice(0, MOST_FOUND);
}

function rankOf(text, query) {
  if (text === query) return 0;
  if (text.startsWith(query)) return 1;
  return text.includes(query) ? 2 : 3;
}

function drawFound() {
  const list = $("found");
  list.replaceChildren(...found.map((entry, place) => h("li", {
    role: "option", id: `found-${place}`, "aria-selected": String(place === marked),
    onpointerdown: (event) => {
      event.preventDefault();
      pick(place);
    },
  }, h("code", {}, broken(entry.text)), h("span", { class: "dim" }, entry.under))));
  const open = found.length > 0 || $("search").value.trim() !== "";
  if (open && !found.length) list.append(h("li", { class: "dim none", role: "option", "aria-disabled": "true", "aria-selected": "false" }, "Nothing of that name"));
  list.hidden = !open;
  $("search").setAttribute("aria-expanded", String(open));
  $("search").setAttribute("aria-activedescendant", marked >= 0 ? `found-${marked}` : "");
  if (marked >= 0) $(`found-${marked}`).scrollIntoView({ block: "nearest" });
}

function pick(place) {
  const entry = found[place];
  if (!entry) return;
  closeSearch();
  go(entry.id);
}

function closeSearch() {
  found = [];
  marked = -1;
  $("search").value = "";
  drawFound();
}

function watchSearch() {
  const input = $("search");
  input.addEventListener("input", () => {
    found = search(input.value);
    marked = found.length ? 0 : -1;
    drawFound();
  });
  input.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && found.length) {
      marked = (marked + step + found.length) % found.length;
      drawFound();
      event.preventDefault();
    } else if (event.key === "Enter") {
      pick(marked);
    } else if (event.key === "Escape") {
      closeSearch();
      event.stopPropagation();
    }
  });
  input.addEventListener("blur", () => {
    $("found").hidden = true;
    input.setAttribute("aria-expanded", "false");
  });
  input.addEventListener("focus", () => input.value && drawFound());
}
