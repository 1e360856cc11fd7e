(() => {
  "use strict";
  // The page of a run that trains loads itself again. Its reader stays where he was: the position,
  // the parts that are open and the element with the focus are in the history's state.
  const seconds = Number(document.body.dataset.refresh);
  const written = 1000 * Number(document.body.dataset.written);
  const find = (selector) => [...document.querySelectorAll(selector)];
  const FOCUSABLE = "summary, button, [tabindex]";
  let paused = false;

  function restore() {
    const state = history.state;
    if (!state || !state.kbert) return;
    find("details").forEach((part) => { part.open = state.open.includes(part.dataset.name); });
    find(".table").forEach((part, number) => { [part.scrollLeft, part.scrollTop] = state.tables[number] || [0, 0]; });
    scrollTo(0, state.top);
    const focused = find(FOCUSABLE)[state.focus];
    if (focused) focused.focus({ preventScroll: true });
    if (state.paused && seconds) pause();
  }

  function keep() {
    const open = find("details[open]").map((part) => part.dataset.name);
    const tables = find(".table").map((part) => [part.scrollLeft, part.scrollTop]);
    const focus = find(FOCUSABLE).indexOf(document.activeElement);
    history.replaceState({ kbert: true, top: scrollY, open, tables, focus, paused }, "");
  }

  // A page that nobody looks at, or in which text is selected, waits.
  function refresh() {
    if (paused || document.hidden || !getSelection().isCollapsed) return;
    keep();
    location.reload();
  }

  function pause() {
    paused = !paused;
    const button = document.querySelector("[data-pause]");
    button.setAttribute("aria-pressed", paused);
    document.querySelector("[data-updates]").textContent = paused ? "updates are paused" : "this page is updated while the run trains";
    keep();
  }

  function showAge() {
    const minutes = Math.round((Date.now() - written) / 60000);
    const silent = document.querySelector("[data-silent]");
    if (!silent || minutes < 5) return;
    silent.querySelector("[data-age]").textContent = `Nothing was written for ${minutes} minutes.`;
    silent.hidden = false;
  }

  async function copy(button) {
    const code = button.closest("figure").querySelector("code");
    try {
      await navigator.clipboard.writeText(code.textContent);
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    } catch {
      getSelection().selectAllChildren(code);
    }
  }

  for (const button of find("[data-copy]")) {
    button.hidden = false;
    button.addEventListener("click", () => copy(button));
  }
  if (seconds) {
    for (const button of find("[data-pause]")) {
      button.hidden = false;
      button.addEventListener("click", pause);
    }
    restore();
    showAge();
    setInterval(() => { showAge(); refresh(); }, 1000 * seconds);
    document.addEventListener("visibilitychange", () => { if (Date.now() - written > 1000 * seconds) refresh(); });
  } else {
    restore();
  }
})();
