// The player of audiobooks, and previews of voices. It belongs to no single page: it is outside of what
// the framework renders, plays on when another page is opened, and continues where it was after a reload.
//
// Elements that control it, in any page:
//   [data-listen-book=JOB] with data-title, data-author, data-cover around
//     [data-chapter=NUMBER]: plays that chapter
//     [data-listen]: continues where this browser stopped; [data-listen-where] says where that is
//   [data-preview=URL]: plays a short recording, or stops it
import { formatTime } from "/page/assets/sound.js";

const { texts, icons } = JSON.parse(document.getElementById("listen-texts").textContent);
const SPEEDS = [0.75, 1, 1.25, 1.5, 1.75, 2, 2.5, 3];
const SLEEP_MINUTES = [5, 15, 30, 45, 60];
const BACK_S = 15;
const FORWARD_S = 30;
const MAX_BOOKS = 50; // whose positions are stored
const RESUME_MS = 60000; // after which a document does not start to play by itself
const STORE_MS = 2000;
const POLL_MS = 3000;
const PLAYING_AT = "anyrig.listen.playing"; // of this tab alone
const SLEEP_AT = "anyrig.listen.sleep";

const root = document.documentElement;
let book = null; // { job, title, author, cover, number, chapter, position, chapters, finished }
let bar = null;
let audio = null;
let storedAt = 0;
let pollTimer = 0;
let sleep = { value: "", at: 0 }; // as chosen, and the time in ms
let requested = ""; // the next chapter whose file the server was asked to prepare
let failed = "";

const fill = (text, values) => text.replace(/\{(\w+)\}/g, (_, name) => values[name]);
const find = (name) => bar.querySelector(`[data-listen-part=${name}]`);

// -- what is stored -----------------------------------------------------------------------------------

function loadBooks() {
  return anyrig.load("listen.books") || {};
}

function storePosition() {
  if (!book) return;
  storedAt = Date.now();
  const { title, author, cover, number, position, finished } = book;
  const chapter = book.number && book.chapters.length ? getTitle(getChapter()) : book.chapter || "";
  const books = { ...loadBooks(), [book.job]: { title, author, cover, number, chapter, position, finished, at: storedAt } };
  const newest = Object.entries(books).sort(([, a], [, b]) => b.at - a.at).slice(0, MAX_BOOKS);
  anyrig.store("listen.books", Object.fromEntries(newest));
  anyrig.store("listen.current", book.job);
  showWhere();
}

function forget(job) {
  const books = loadBooks();
  delete books[job];
  if (book?.job === job) close();
  anyrig.store("listen.books", books);
}

// -- playing ------------------------------------------------------------------------------------------

function getChapter() {
  return book.chapters.find((one) => one.number === book.number) || { title: book.chapter, number: book.number };
}

function getDuration() {
  if (Number.isFinite(audio.duration) && audio.duration > 0) return audio.duration;
  return getChapter().seconds || 0;
}

function openBook(job, about) {
  if (book?.job === job) return;
  stop();
  const stored = loadBooks()[job] || {};
  book = { title: "", author: "", cover: "", number: 0, position: 0, finished: false, ...stored, ...about, job, chapters: [] };
  show();
}

function setChapter(number, position, playing) {
  clearTimeout(pollTimer);
  failed = requested = "";
  if (number !== book.number) book.chapter = "";
  Object.assign(book, { number, position, finished: false });
  audio.preload = playing ? "auto" : "none";
  audio.src = `/jobs/${book.job}/chapters/${number}`;
  audio.playbackRate = audio.defaultPlaybackRate = Number(anyrig.load("listen.speed")) || 1;
  if (position) audio.currentTime = position; // applied once the file is known
  storePosition();
  setMetadata();
  render();
  if (playing) play();
}

async function play() {
  window.dispatchEvent(new CustomEvent("anyrig-sound", { detail: "listen" }));
  try {
    await audio.play();
  } catch (error) {
    if (error.name === "AbortError") return; // another chapter was chosen
    if (error.name !== "NotAllowedError") failed = texts.failed; // else the browser wants a click first
    render();
  }
}

function stop() {
  clearTimeout(pollTimer);
  if (!audio) return;
  audio.pause();
  if (book) storePosition();
}

function toggle() {
  if (audio.paused) book.finished ? setChapter(book.chapters[0]?.number ?? book.number, 0, true) : play();
  else audio.pause();
}

function seek(position) {
  const end = getDuration();
  book.position = Math.max(0, end ? Math.min(end, position) : position);
  book.finished = false;
  audio.currentTime = book.position;
  storePosition();
  render();
}

async function loadChapters() {
  const { job } = book;
  const response = await fetch(`/jobs/${job}/chapters`).catch(() => null);
  if (response?.status === 404) return forget(job); // the book was deleted
  if (!response?.ok || book?.job !== job) return;
  const { chapters } = await response.json();
  if (book?.job !== job) return;
  book.chapters = chapters;
  book.chapter = "";
  if (!book.number) book.number = chapters[0]?.number ?? 0;
  renderList();
  setMetadata();
  render();
}

function step(by) {
  const at = book.chapters.findIndex((one) => one.number === book.number);
  const other = book.chapters[at + by];
  if (by < 0 && (!other || audio.currentTime > 5)) return seek(0);
  if (other?.url) setChapter(other.number, 0, !audio.paused);
}

// On to the next chapter, as soon as it is made.
async function playNext() {
  await loadChapters();
  if (!book) return;
  const at = book.chapters.findIndex((one) => one.number === book.number);
  const next = book.chapters[at + 1];
  if (next?.url) return setChapter(next.number, 0, true);
  if (next) {
    pollTimer = setTimeout(playNext, POLL_MS);
    failed = texts.waiting;
  } else if (at >= 0) {
    Object.assign(book, { number: book.chapters[0].number, position: 0, finished: true });
    failed = texts.finished;
    storePosition();
  }
  render();
}

// The server cuts a chapter out of the book when it is first wanted: ask for it before its time.
function requestNext() {
  const at = book.chapters.findIndex((one) => one.number === book.number);
  const url = at < 0 ? null : book.chapters[at + 1]?.url;
  if (!url || requested === url || audio.currentTime < getDuration() / 2) return;
  requested = url;
  fetch(url, { method: "HEAD" }).catch(() => {});
}

function setSleep(value) {
  sleep = { value, at: Number(value) ? Date.now() + 60000 * Number(value) : 0 };
  sessionStorage.setItem(SLEEP_AT, JSON.stringify(sleep));
  find("sleep").value = value;
  render();
}

function fallAsleep() {
  setSleep("");
  audio.pause();
}

// -- what is shown ------------------------------------------------------------------------------------

function build() {
  const button = (part, label, icon, text = "") =>
    `<button type="button" class="button quiet" data-listen-part="${part}" aria-label="${label}" title="${label}">
      <span class="icon">${icons[icon]}</span>${text && `<small aria-hidden="true">${text}</small>`}</button>`;
  bar = document.createElement("section");
  bar.id = "listen";
  bar.setAttribute("aria-label", texts.player);
  bar.innerHTML = `
    <div class="listen-chapters" data-listen-part="panel" hidden>
      <h2>${texts.chapters}</h2><ol data-listen-part="list"></ol></div>
    <div class="listen-bar">
      <div class="listen-about"><span class="listen-cover" data-listen-part="cover" aria-hidden="true"></span>
        <p><b data-listen-part="chapter"></b><span class="soft" data-listen-part="title"></span></p></div>
      <div class="listen-buttons">
        ${button("previous", texts.previous, "previous")}${button("back", fill(texts.back, { seconds: BACK_S }), "back", BACK_S)}
        <button type="button" class="button primary" data-listen-part="play"></button>
        ${button("forward", fill(texts.forward, { seconds: FORWARD_S }), "forward", FORWARD_S)}${button("next", texts.next, "next")}
      </div>
      <div class="listen-seek"><span class="soft figures" data-listen-part="now"></span>
        <input type="range" min="0" step="1" data-listen-part="seek" aria-label="${texts.seek}" />
        <span class="soft figures" data-listen-part="end"></span></div>
      <div class="listen-more">
        <label class="only-read" for="listen-speed">${texts.speed}</label>
        <select id="listen-speed" data-listen-part="speed" title="${texts.speed}">${SPEEDS.map(
          (one) => `<option value="${one}">${one.toLocaleString(root.lang)} ×</option>`).join("")}</select>
        <label class="only-read" for="listen-sleep">${texts.sleep}</label>
        <select id="listen-sleep" data-listen-part="sleep" title="${texts.sleep}"><option value="">${texts.sleep_off}</option>
          ${SLEEP_MINUTES.map((one) => `<option value="${one}">${fill(texts.sleep_minutes, { minutes: one })}</option>`).join("")}
          <option value="chapter">${texts.sleep_chapter}</option></select>
        <button type="button" class="button quiet" data-listen-part="chapters" aria-expanded="false" aria-label="${texts.chapters}"
          title="${texts.chapters}"><span class="icon">${icons.jobs}</span></button>
        ${button("close", texts.close, "close")}
      </div>
      <p class="soft" role="status" data-listen-part="status"></p>
      <audio data-listen-part="audio"></audio>
    </div>`;
  document.body.append(bar);
  audio = find("audio");
  find("speed").value = String(Number(anyrig.load("listen.speed")) || 1);
  bar.addEventListener("click", handleClick);
  bar.addEventListener("change", handleChange);
  bar.addEventListener("input", (event) => event.target === find("seek") && seek(Number(event.target.value)));
  bar.addEventListener("keydown", handleKey);
  for (const name of ["play", "playing", "pause", "durationchange", "waiting"]) audio.addEventListener(name, render);
  audio.addEventListener("pause", storePosition);
  audio.addEventListener("timeupdate", handleTime);
  audio.addEventListener("ended", handleEnd);
  audio.addEventListener("error", () => {
    failed = texts.failed;
    render();
  });
  new ResizeObserver(() => root.style.setProperty("--listen", bar.offsetHeight + "px")).observe(bar);
  setHandlers();
}

function show() {
  if (!bar) build();
  bar.hidden = false;
  root.toggleAttribute("data-listen", true);
  const place = find("cover");
  place.innerHTML = icons.book;
  if (book.cover) {
    const image = new Image();
    image.alt = "";
    image.src = book.cover;
    place.replaceChildren(image);
  }
  find("title").textContent = [book.title, book.author].filter(Boolean).join(" · ");
  loadChapters();
}

function close() {
  stop();
  anyrig.store("listen.current", null);
  sessionStorage.removeItem(PLAYING_AT);
  setSleep("");
  book = null;
  audio.removeAttribute("src");
  audio.load();
  bar.hidden = true;
  root.toggleAttribute("data-listen", false);
  root.style.setProperty("--listen", "0px");
  if (navigator.mediaSession) navigator.mediaSession.metadata = null;
  showWhere();
}

// A chapter without a title goes by its place in the list: what is not read has numbers too.
function getTitle({ title, number }) {
  const at = book ? book.chapters.findIndex((one) => one.number === number) : -1;
  return title || (at < 0 ? "" : fill(texts.untitled, { number: at + 1 }));
}

function render() {
  if (!book) return;
  const [end, playing] = [getDuration(), !audio.paused && !audio.ended];
  const now = audio.readyState ? audio.currentTime : book.position;
  const label = playing ? texts.pause : texts.play;
  const button = find("play");
  if (button.getAttribute("aria-label") !== label) {
    button.setAttribute("aria-label", label);
    button.title = label;
    button.innerHTML = `<span class="icon">${playing ? icons.pause : icons.play}</span>`;
  }
  find("chapter").textContent = book.number ? getTitle(getChapter()) : "";
  find("now").textContent = formatTime(now);
  find("end").textContent = end ? formatTime(end) : "";
  const slider = find("seek");
  slider.max = Math.max(1, Math.round(end));
  slider.disabled = !end;
  if (document.activeElement !== slider || playing) slider.value = Math.round(now);
  slider.setAttribute("aria-valuetext", fill(texts.position, { now: formatTime(now), end: formatTime(end) }));
  const at = book.chapters.findIndex((one) => one.number === book.number);
  find("next").disabled = !book.chapters[at + 1]?.url;
  find("previous").disabled = !audio.src;
  const left = sleep.at ? fill(texts.sleep_left, { time: formatTime((sleep.at - Date.now()) / 1000) }) : "";
  const status = [failed, left].filter(Boolean).join(" · ");
  if (find("status").textContent !== status) find("status").textContent = status;
  Object.assign(bar.dataset, { job: book.job, number: book.number, state: playing ? "playing" : "paused", position: now.toFixed(2) });
  for (const one of document.querySelectorAll("[data-listen-book] [data-chapter], #listen [data-chapter]")) {
    const own = one.closest("[data-listen-book]")?.dataset.listenBook ?? book.job;
    const current = own === book.job && Number(one.dataset.chapter) === book.number;
    if (current !== one.hasAttribute("aria-current"))
      current ? one.setAttribute("aria-current", "true") : one.removeAttribute("aria-current");
  }
}

function renderList() {
  find("list").replaceChildren(...book.chapters.map((chapter) => {
    const [item, button, length] = ["li", "button", "span"].map((name) => document.createElement(name));
    Object.assign(button, { type: "button", className: "button quiet", textContent: getTitle(chapter), disabled: !chapter.url });
    button.dataset.chapter = chapter.number;
    length.className = "soft figures";
    length.textContent = chapter.seconds ? formatTime(chapter.seconds) : chapter.url ? "" : texts.not_ready;
    item.append(button, length);
    return item;
  }));
}

// Where one stopped, beside the button that continues there.
function showWhere() {
  const books = loadBooks();
  for (const place of document.querySelectorAll("[data-listen-where]")) {
    const stored = books[place.closest("[data-listen-book]").dataset.listenBook];
    const started = stored && !stored.finished && (stored.position > 1 || stored.number);
    const at = [stored?.chapter, formatTime(stored?.position || 0)].filter(Boolean).join(", ");
    const text = started ? fill(texts.where, { place: at }) : "";
    if (place.textContent !== text) place.textContent = text;
  }
}

function togglePanel(open) {
  find("panel").hidden = !open;
  find("chapters").setAttribute("aria-expanded", String(open));
  if (!open) return find("chapters").focus();
  loadChapters().then(() => {
    const current = bar.querySelector("[data-chapter][aria-current]");
    current?.scrollIntoView({ block: "center" });
    (current || bar.querySelector("[data-chapter]"))?.focus();
  });
}

// -- events -------------------------------------------------------------------------------------------

function handleClick(event) {
  const button = event.target.closest("button");
  if (!button) return;
  if (button.dataset.chapter) return setChapter(Number(button.dataset.chapter), 0, true);
  const act = {
    play: toggle,
    back: () => seek(audio.currentTime - BACK_S),
    forward: () => seek(audio.currentTime + FORWARD_S),
    previous: () => step(-1),
    next: () => step(1),
    chapters: () => togglePanel(find("panel").hidden),
    close,
  }[button.dataset.listenPart];
  act?.();
}

function handleChange(event) {
  if (event.target === find("sleep")) setSleep(event.target.value);
  if (event.target !== find("speed")) return;
  audio.playbackRate = audio.defaultPlaybackRate = Number(event.target.value);
  anyrig.store("listen.speed", Number(event.target.value));
}

// Only while the focus is in the player: single keys must not act on the rest of the page.
function handleKey(event) {
  if (event.key === "Escape" && !find("panel").hidden) return togglePanel(false);
  if (event.target.tagName === "SELECT" || event.ctrlKey || event.metaKey || event.altKey) return;
  const act = {
    k: toggle,
    j: () => seek(audio.currentTime - BACK_S),
    l: () => seek(audio.currentTime + FORWARD_S),
    n: () => step(1),
    p: () => step(-1),
  }[event.key.toLowerCase()];
  if (!act) return;
  event.preventDefault();
  act();
}

function handleTime() {
  if (!book || !audio.readyState) return;
  book.position = audio.currentTime;
  if (Date.now() - storedAt > STORE_MS) storePosition();
  if (sleep.at && Date.now() >= sleep.at) fallAsleep();
  requestNext();
  render();
  navigator.mediaSession?.setPositionState?.(
    getDuration() ? { duration: getDuration(), playbackRate: audio.playbackRate, position: Math.min(audio.currentTime, getDuration()) } : undefined);
}

function handleEnd() {
  if (sleep.value !== "chapter") return playNext();
  setSleep("");
  const at = book.chapters.findIndex((one) => one.number === book.number);
  const next = book.chapters[at + 1];
  if (next?.url) setChapter(next.number, 0, false);
}

function setMetadata() {
  if (!navigator.mediaSession || !window.MediaMetadata || !book.number) return;
  navigator.mediaSession.metadata = new MediaMetadata({
    title: getTitle(getChapter()),
    artist: book.author,
    album: book.title,
    artwork: book.cover ? [{ src: book.cover }] : [],
  });
}

function setHandlers() {
  const handlers = {
    play: toggle,
    pause: () => audio.pause(),
    stop: () => audio.pause(),
    previoustrack: () => step(-1),
    nexttrack: () => step(1),
    seekbackward: (details) => seek(audio.currentTime - (details.seekOffset || BACK_S)),
    seekforward: (details) => seek(audio.currentTime + (details.seekOffset || FORWARD_S)),
    seekto: (details) => seek(details.seekTime),
  };
  for (const [name, act] of Object.entries(handlers)) {
    try {
      navigator.mediaSession?.setActionHandler(name, (details) => book && act(details));
    } catch {
      // This browser does not know the action.
    }
  }
}

// -- previews of voices -------------------------------------------------------------------------------

const preview = new Audio();
let previewed = null;

function markPreview(button) {
  for (const one of document.querySelectorAll("[data-preview][data-playing]")) delete one.dataset.playing;
  previewed = button;
  if (button) button.dataset.playing = "true";
}

async function togglePreview(button) {
  if (previewed === button) return preview.pause();
  window.dispatchEvent(new CustomEvent("anyrig-sound", { detail: "preview" }));
  preview.src = button.dataset.preview;
  markPreview(button);
  try {
    await preview.play();
  } catch (error) {
    if (error.name === "AbortError" || previewed !== button) return;
    markPreview(null);
    const response = await fetch(button.dataset.preview).catch(() => null);
    const problem = (await response?.json().catch(() => null)) || {};
    anyrig.toast(problem.title || texts.preview_failed, "bad", problem.hint || "", problem.title ? "en" : "");
  }
}
for (const name of ["pause", "ended"]) preview.addEventListener(name, () => markPreview(null));

// -- the page -----------------------------------------------------------------------------------------

document.addEventListener("click", (event) => {
  const sample = event.target.closest?.("[data-preview]");
  if (sample && !sample.disabled) return togglePreview(sample);
  const place = event.target.closest?.("[data-listen-book]");
  const button = place && event.target.closest("[data-chapter], [data-listen]");
  if (!button) return;
  const { listenBook: job, title, author = "", cover = "" } = place.dataset;
  const isOpen = book?.job === job && audio.src;
  openBook(job, { title, author, cover });
  if (button.dataset.chapter) return setChapter(Number(button.dataset.chapter), 0, true);
  if (isOpen) return toggle();
  const first = Number(place.querySelector("[data-chapter]")?.dataset.chapter);
  const again = book.number && !book.finished;
  setChapter(again ? book.number : first, again ? book.position : 0, true);
});
window.addEventListener("anyrig-sound", (event) => {
  if (event.detail !== "listen") audio?.pause();
  if (event.detail !== "preview") preview.pause();
});
window.addEventListener("anyrig-page", () => preview.pause());
window.addEventListener("anyrig-job-deleted", (event) => forget(event.detail));
window.addEventListener("pagehide", () => {
  if (!book) return;
  if (!audio.paused) sessionStorage.setItem(PLAYING_AT, String(Date.now()));
  storePosition();
});
document.addEventListener("submit", (event) => {
  if (event.target.getAttribute("action") !== "/logout" || !book) return;
  audio.pause();
  book = null; // nothing of it may be stored again
});
setInterval(() => {
  showWhere();
  if (book) render(); // the sleep timer, and cards that were built meanwhile
}, 1000);

const current = anyrig.load("listen.current");
const stored = current && loadBooks()[current];
if (stored) {
  const playing = Date.now() - Number(sessionStorage.getItem(PLAYING_AT)) < RESUME_MS;
  sessionStorage.removeItem(PLAYING_AT);
  openBook(current, {});
  sleep = JSON.parse(sessionStorage.getItem(SLEEP_AT)) || sleep;
  find("sleep").value = sleep.value;
  setChapter(stored.number, stored.position, playing);
}
