// What the frame does in the browser: the menu, the theme, the language, copying, passing words.
window.anyrig = (() => {
  const root = document.documentElement;
  const remember = (what) =>
    fetch("/page/preferences", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(what),
    });

  function menu(open) {
    const button = document.getElementById("menu-button");
    if (!button) return;
    root.toggleAttribute("data-menu", open);
    button.setAttribute("aria-expanded", String(open));
    if (open) document.getElementById("menu-close")?.focus();
    else if (document.activeElement?.closest("#pages")) button.focus();
  }

  function theme(name) {
    root.dataset.theme = name;
    document.querySelectorAll("[data-theme-choice]").forEach((one) =>
      one.setAttribute("aria-pressed", String(one.dataset.themeChoice === name)));
    remember({ theme: name });
    window.dispatchEvent(new Event("anyrig-theme"));
  }

  async function copy(button) {
    try {
      await navigator.clipboard.writeText(button.dataset.copy);
    } catch {
      const area = document.createElement("textarea"); // pages that are not of a secure address
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

  // What a person typed stays in this browser, over changes of page, reloads and restarts of the server,
  // until they sign out.
  const KEPT = "anyrig.";
  function keep(name, value) {
    try {
      localStorage.setItem(KEPT + name, JSON.stringify(value));
    } catch {
      // Storage is full or switched off: the page works without it.
    }
  }

  function kept(name) {
    try {
      return JSON.parse(localStorage.getItem(KEPT + name)) ?? undefined;
    } catch {
      return undefined;
    }
  }

  function forgetKept() {
    for (const name of Object.keys(localStorage)) if (name.startsWith(KEPT)) localStorage.removeItem(name);
  }

  function whenConnected(act) {
    if (window.did_handshake) act();
    else setTimeout(() => whenConnected(act), 50);
  }

  // Buttons are answered by the server: where it is gone, a press is answered here.
  function answerDisconnected(event) {
    const place = document.getElementById("toasts");
    const pressed = event.target.closest?.("#content button");
    if (!place || !pressed || !window.socket || window.socket.connected) return;
    if (place.querySelector(".unreachable")) return;
    toast(place.dataset.unreachable, "bad unreachable", place.dataset.unreachableHint);
  }

  // A file that is made for a question and kept nowhere: asked for here, so that it is not held twice.
  async function save(button, url, body, name) {
    button.disabled = true;
    try {
      const answer = await fetch(url, {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify(body),
      });
      if (!answer.ok) {
        const told = await answer.json().catch(() => ({}));
        return toast(told.title || answer.statusText, "bad", told.hint || "", "en");
      }
      const link = document.createElement("a");
      link.href = URL.createObjectURL(await answer.blob());
      link.download = name;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 60000);
    } finally {
      button.disabled = false;
    }
  }

  document.addEventListener("click", answerDisconnected, true);
  document.addEventListener("submit", (event) => {
    if (event.target.getAttribute("action") === "/logout") forgetKept();
  });
  document.addEventListener("click", (event) => {
    const at = (selector) => event.target.closest?.(selector);
    const copied = at("[data-copy]");
    const chosen = at("[data-theme-choice]");
    if (copied) copy(copied);
    else if (chosen) theme(chosen.dataset.themeChoice);
    else if (at("#menu-button")) menu(!root.hasAttribute("data-menu"));
    else if (at("#menu-shade, #menu-close")) menu(false);
  });
  document.addEventListener("change", async (event) => {
    if (event.target.id !== "language") return;
    await remember({ language: event.target.value });
    location.reload();
  });
  document.addEventListener("keydown", (event) => {
    if (!root.hasAttribute("data-menu")) return;
    if (event.key === "Escape") menu(false);
    if (event.key !== "Tab") return;
    // While the menu covers the page, the keys stay in it.
    const all = [...document.querySelectorAll("#pages a, #pages button")];
    const [from, to] = event.shiftKey ? [all[0], all.at(-1)] : [all.at(-1), all[0]];
    if (document.activeElement !== from) return;
    event.preventDefault();
    to.focus();
  });
  return { toast, theme, menu, save, keep, kept, whenConnected };
})();
