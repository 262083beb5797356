// The layout's behaviour in the browser: menu, theme, language, copying, toasts, stored input, and
// links to other pages.
window.anyrig = (() => {
  const root = document.documentElement;
  const savePreferences = (preferences) =>
    fetch("/page/preferences", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(preferences),
    });

  function toggleMenu(open) {
    const button = document.getElementById("menu-button");
    if (!button) return;
    root.toggleAttribute("data-menu", open);
    button.setAttribute("aria-expanded", String(open));
    if (open) document.getElementById("menu-close")?.focus();
    else if (document.activeElement?.closest("#pages")) button.focus();
  }

  function setTheme(name) {
    root.dataset.theme = name;
    document.querySelectorAll("[data-theme-choice]").forEach((one) =>
      one.setAttribute("aria-pressed", String(one.dataset.themeChoice === name)));
    savePreferences({ theme: name });
    window.dispatchEvent(new Event("anyrig-theme"));
  }

  async function copy(button) {
    try {
      await navigator.clipboard.writeText(button.dataset.copy);
    } catch {
      const area = document.createElement("textarea"); // the clipboard needs a secure origin
      area.value = button.dataset.copy;
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
      button.focus();
    }
    toast(button.dataset.copied, "good");
  }

  function toast(text, mood = "plain", hint = "", lang = "") {
    const place = document.getElementById("toasts");
    if (!place) return;
    const one = document.createElement("div");
    one.className = "toast " + mood;
    if (lang) one.lang = lang;
    const title = document.createElement("p");
    title.textContent = text;
    one.append(title);
    if (hint) {
      const more = document.createElement("p");
      more.className = "toast-hint";
      more.textContent = hint;
      one.append(more);
    }
    const close = document.createElement("button");
    close.type = "button";
    close.textContent = "×";
    close.setAttribute("aria-label", place.dataset.close);
    close.onclick = () => one.remove();
    one.append(close);
    place.append(one);
    setTimeout(() => one.remove(), mood.startsWith("bad") ? 15000 : 5000);
  }

  // Input is stored in this browser, across pages, reloads and restarts of the server, until the person
  // signs out.
  const PREFIX = "anyrig.";
  function store(name, value) {
    try {
      localStorage.setItem(PREFIX + name, JSON.stringify(value));
    } catch {
      // Storage is full or disabled: the page works without it.
    }
  }

  function load(name) {
    try {
      return JSON.parse(localStorage.getItem(PREFIX + name)) ?? undefined;
    } catch {
      return undefined;
    }
  }

  function clearStored() {
    for (const name of Object.keys(localStorage)) if (name.startsWith(PREFIX)) localStorage.removeItem(name);
  }

  function whenConnected(act) {
    if (window.did_handshake) act();
    else setTimeout(() => whenConnected(act), 50);
  }

  // Buttons are handled by the server: without a connection a press is answered here, beside the button.
  function reportDisconnected(event) {
    const words = document.getElementById("toasts")?.dataset;
    const pressed = event.target.closest?.("#content button");
    if (!words || !pressed || !window.socket || window.socket.connected) return;
    const clear = () => document.querySelectorAll(".unreachable").forEach((one) => one.remove());
    clear();
    const box = document.createElement("div");
    box.className = "trouble unreachable";
    box.setAttribute("role", "alert");
    for (const [text, name] of [[words.unreachable, "trouble-title"], [words.unreachableHint, ""]]) {
      const line = document.createElement("p");
      line.className = name;
      line.textContent = text;
      box.append(line);
    }
    const row = pressed.closest("dialog, .row, .tabs, .job-actions, li, .search") || pressed;
    row.tagName === "DIALOG" || row.tagName === "LI" ? row.append(box) : row.after(box);
    window.socket.once("connect", clear);
  }

  // A file that the server does not store is requested by the browser, so that it is not in memory twice.
  async function save(button, url, body, name) {
    button.disabled = true;
    try {
      const response = await fetch(url, {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify(body),
      });
      if (!response.ok) {
        const problem = await response.json().catch(() => ({}));
        return toast(problem.title || response.statusText, "bad", problem.hint || "", "en");
      }
      const link = document.createElement("a");
      link.href = URL.createObjectURL(await response.blob());
      link.download = name;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 60000);
    } finally {
      button.disabled = false;
    }
  }

  document.addEventListener("click", reportDisconnected, true);
  document.addEventListener("submit", (event) => {
    if (event.target.getAttribute("action") === "/logout") clearStored();
  });
  document.addEventListener("click", (event) => {
    const at = (selector) => event.target.closest?.(selector);
    const copied = at("[data-copy]");
    const chosen = at("[data-theme-choice]");
    if (copied) copy(copied);
    else if (chosen) setTheme(chosen.dataset.themeChoice);
    else if (at("#menu-button")) toggleMenu(!root.hasAttribute("data-menu"));
    else if (at("#menu-shade, #menu-close")) toggleMenu(false);
  });
  // A person who types in the selector chooses with every letter: the last choice is stored last.
  let stored = Promise.resolve();
  document.addEventListener("change", async (event) => {
    if (event.target.id !== "language") return;
    const language = event.target.value;
    const own = stored.catch(() => {}).then(() => savePreferences({ language }));
    stored = own;
    await own;
    if (stored === own) location.reload();
  });
  document.addEventListener("keydown", (event) => {
    if (!root.hasAttribute("data-menu")) return;
    if (event.key === "Escape") toggleMenu(false);
    if (event.key !== "Tab") return;
    // While the menu covers the page, the focus stays in it.
    const all = [...document.querySelectorAll("#pages :is(a, button, select)")];
    const [from, to] = event.shiftKey ? [all[0], all.at(-1)] : [all.at(-1), all[0]];
    if (document.activeElement !== from) return;
    event.preventDefault();
    to.focus();
  });

  // -- pages: the server replaces the content of this document, so that sound plays on

  const getAddress = () => location.pathname + location.search;
  let address = getAddress(); // of the page that is shown

  function openPage() {
    address = getAddress();
    root.toggleAttribute("data-opening", true);
    document.querySelector("dialog[open]")?.close();
    window.dispatchEvent(new Event("anyrig-page"));
    emitEvent("open_page", address);
  }

  // The server calls it when the page is built.
  function showPage() {
    root.toggleAttribute("data-opening", false);
    const part = location.hash && document.getElementById(location.hash.slice(1));
    const heading = (part || document.getElementById("content")).querySelector("h1, h2");
    heading.tabIndex = -1;
    heading.focus({ preventScroll: true });
    part ? part.scrollIntoView() : scrollTo(0, history.state?.scroll || 0);
  }

  // What is open is in the address, so that a reload and a link find it again.
  function setQuery(name, value) {
    const url = new URL(location);
    value ? url.searchParams.set(name, value) : url.searchParams.delete(name);
    history.replaceState(history.state, "", url);
    address = getAddress();
  }

  function isPage(link) {
    const pages = [...document.querySelectorAll(".brand, #pages a")].map((one) => one.pathname);
    return link.origin === location.origin && !link.target && pages.includes(link.pathname);
  }

  document.addEventListener("click", (event) => {
    const link = event.target.closest?.("a[href]");
    if (link?.closest("#pages")) toggleMenu(false);
    const isPlain = !event.button && !event.ctrlKey && !event.metaKey && !event.shiftKey && !event.altKey;
    if (!link || !isPlain || !isPage(link) || !window.socket?.connected) return; // the browser follows it
    if (link.hash && link.pathname === location.pathname) {
      if (link.search === location.search) return;
      event.preventDefault(); // the tab that is open stays in the address
      location.hash = link.hash;
      return;
    }
    event.preventDefault();
    history.replaceState({ ...history.state, scroll: scrollY }, "");
    if (link.href === location.href) history.replaceState({}, "");
    else history.pushState({}, "", link.href);
    openPage();
  });
  window.addEventListener("popstate", () => {
    if (getAddress() === address) return; // another part of the same page
    window.socket?.connected ? openPage() : location.reload();
  });

  return { toast, save, store, load, setQuery, showPage, whenConnected };
})();
