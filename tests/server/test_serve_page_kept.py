"""The page loses nothing and says what happens: long speech, typed text, a server that is gone."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.webdriver.common.keys import Keys

from anyrig.server.page.translations import get_translator
from tests.cli.test_without_extras import HIDE
from tests.server.browsing import NEEDS, Browser, visiting
from tests.server.conftest import Server, Start, running
from tests.server.documents_files import scan
from tests.server.listening import player

pytestmark = NEEDS
T = get_translator("en")

# Count what is read of the component while it takes a second of sound; Vue's proxies must not be
# read for every sample.
_COUNT_READS = """
const done = arguments[arguments.length - 1];
const files = ["player", "sound"].map((name) => import(`/page/assets/${name}.js`));
Promise.all(files).then(([player, sound]) => {
  let reads = 0;
  const peaks = new sound.Peaks();
  const component = { chunks: [], peaks, count: 0, numChunks: 0, peak: 0, redraw() {} };
  const counted = {
    get(inner, key) {
      reads++;
      const one = inner[key];
      return typeof one === "function" ? one.bind(inner) : one;
    },
  };
  const watched = new Proxy(component, {
    get(target, name) {
      reads++;
      const value = target[name];
      return value && typeof value === "object" && !(value instanceof sound.Peaks)
        ? new Proxy(value, counted)
        : value;
    },
  });
  const second = Int16Array.from({ length: 24000 }, (_, i) => 10000 * Math.sin(i / 20));
  player.default.methods.append.call(watched, second);
  done({ reads, count: component.count, peak: component.peak, chunks: component.chunks.length });
}, (error) => done({ error: String(error) }));
"""
_PEAKS_OF_AN_HOUR = """
const done = arguments[arguments.length - 1];
import("/page/assets/sound.js").then((sound) => {
  const peaks = new sound.Peaks();
  const second = new Int16Array(24000).fill(1000);
  for (let i = 0; i < 600; i++) peaks.add(second);
  second[5] = -20000;
  peaks.add(second);
  const { count, values, max } = peaks;
  done({ count, size: values.length, max, last: peaks.loudest(count - 8, count) });
}, (error) => done({ error: String(error) }));
"""

# Follow the log of a job whose server answers as given; each status is an answer, the last repeats.
_FOLLOW_A_LOG = """
const [statuses, done] = arguments;
import("/page/assets/log.js").then(async ({ default: log }) => {
  const component = { ...log.data(), $refs: {}, url: "/jobs/x/events", texts: { states: {} } };
  for (const [name, one] of Object.entries(log.methods)) component[name] = one.bind(component);
  const { fetch, setTimeout } = window;
  let requests = 0;
  window.fetch = async () => {
    const status = statuses[Math.min(requests, statuses.length - 1)];
    if (++requests > 9) component.over = true;
    const event = 'id: 1\\nevent: state\\ndata: {"data": {"state": "running"}}\\n\\n';
    return new Response(status === 200 ? event : null, { status });
  };
  window.setTimeout = (go) => Promise.resolve().then(go);
  try {
    await component.follow();
  } finally {
    Object.assign(window, { fetch, setTimeout });
  }
  done({ requests, lines: component.lines.length });
}).catch((error) => done({ error: String(error) }));
"""


def test_a_second_of_sound_reads_the_component_a_few_times(browser: Browser) -> None:
    browser.open("/speak")
    taken = browser.driver.execute_async_script(_COUNT_READS)
    assert taken.get("error") is None
    assert taken["reads"] < 50
    assert (taken["count"], taken["chunks"]) == (24000, 1)
    assert taken["peak"] == pytest.approx(10000 / 32768, abs=0.01)


def test_the_drawing_of_long_speech_stays_small(browser: Browser) -> None:
    browser.open("/speak")
    peaks = browser.driver.execute_async_script(_PEAKS_OF_AN_HOUR)
    assert peaks.get("error") is None
    assert peaks["count"] <= peaks["size"] == 4096
    assert peaks["max"] == pytest.approx(20000 / 32768, abs=0.001)
    assert peaks["last"] == pytest.approx(20000 / 32768, abs=0.001)


def test_the_log_of_a_job_ends_when_the_server_has_no_more(browser: Browser) -> None:
    browser.open("/speak")
    asked = {}
    for statuses in ([204], [200, 204], [404], [401], [503, 429, 204], [503]):
        read = browser.driver.execute_async_script(_FOLLOW_A_LOG, statuses)
        assert read.get("error") is None
        asked[str(statuses)] = read["requests"]
    assert asked == {
        "[204]": 1, "[200, 204]": 2, "[404]": 1, "[401]": 1, "[503, 429, 204]": 3, "[503]": 10,
    }  # fmt: skip


def typed(browser: Browser) -> tuple[str, str, str]:
    fields = [browser.find(f"[name={name}]") for name in ("text", "voice", "speed")]
    return tuple(field.get_attribute("value") or "" for field in fields)  # type: ignore[return-value]


def fill(browser: Browser) -> tuple[str, str, str]:
    """Another text, voice and speed than at first."""
    browser.write("[name=text]", "A text that took long to write.")
    voices = browser.all("[name=voice] option")
    voices[-1].click()
    browser.find("[name=speed]").send_keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    return typed(browser)


def test_text_voice_and_speed_survive_a_change_of_page_and_a_reload(browser: Browser) -> None:
    browser.open("/speak")
    first = typed(browser)
    written = fill(browser)
    assert all(one != other for one, other in zip(first, written, strict=True))
    browser.open("/books")
    browser.open("/speak")
    browser.until(lambda: typed(browser) == written)
    browser.driver.refresh()
    browser.until(lambda: typed(browser) == written)
    # The server speaks what stands there, not what the page began with.
    browser.click("#speak")
    browser.until(lambda: player(browser)["state"] == "done")
    browser.write("[name=text]", Keys.DELETE)
    browser.open("/speak")
    browser.until(lambda: typed(browser)[0] == "")


def test_lines_survive_too(browser: Browser) -> None:
    browser.open("/speak")
    browser.write("#paste", "One.\nTwo.")
    browser.click("#add-lines")
    browser.open("/jobs")
    browser.open("/speak")
    browser.until(lambda: len(browser.all(".line")) == 2)


@pytest.fixture
def visitor(driver: webdriver.Chrome, tmp_path: Path) -> Iterator[Browser]:
    """Somebody at the page of a server of their own, which can be ended."""
    with running(tmp_path / "person") as server:
        for browser in visiting(driver, server.url):
            browser.server = server  # type: ignore[attr-defined]
            yield browser


def test_a_dead_server_is_named_and_the_text_is_there_when_it_is_back(
    visitor: Browser, tmp_path: Path
) -> None:
    server = visitor.server  # type: ignore[attr-defined]
    visitor.open("/speak")
    written = fill(visitor)
    os.kill(server.process.pid, signal.SIGKILL)
    server.process.wait()
    visitor.until(lambda: visitor.script("return window.socket.connected === false"))
    # Through the page's own handlers, as the browser may cover it while it reconnects.
    visitor.script("document.querySelector('#speak').click()")
    box = visitor.find(".unreachable[role=alert]", T("frame.unreachable"))
    assert T("frame.unreachable.hint") in box.text
    button = visitor.find("#speak").rect  # it is said beside the button
    assert 0 < box.rect["y"] - button["y"] < 2 * button["height"] + 40
    port = server.url.rpartition(":")[2]
    with running(tmp_path / "person", "--port", port):
        visitor.open("/speak")
        visitor.until(lambda: typed(visitor) == written)


def test_sound_that_was_cut_off_does_not_look_finished(visitor: Browser) -> None:
    server = visitor.server  # type: ignore[attr-defined]
    visitor.open("/speak")
    days = (f"On day {n} it rained, and nobody went out to see the harbour." for n in range(400))
    visitor.write("[name=text]", " ".join(days))  # all different: what is equal is made once
    visitor.click("#speak")
    visitor.until(lambda: player(visitor).number("samples") > 24000)
    os.kill(server.process.pid, signal.SIGKILL)
    server.process.wait()
    visitor.until(lambda: player(visitor)["state"] == "stopped")
    visitor.says(T("player.cut"), ".player [role=status]")
    visitor.toast(T("frame.unreachable"))
    assert not visitor.all(".history")  # only what is whole is kept there
    assert player(visitor).number("seconds") > 1
    visitor.find("#play")  # what came can be heard


def test_what_was_typed_is_forgotten_when_one_signs_out(browser: Browser) -> None:
    browser.open("/speak")
    browser.script("anyrig.store('speak.text', 'secret')")
    browser.script(
        "const form = document.createElement('form'); form.setAttribute('action', '/logout');"
        "document.body.append(form); form.dispatchEvent(new Event('submit', {bubbles: true}));"
    )
    assert browser.script("return anyrig.load('speak.text') === undefined")


_DROP = """
const [selector, entries] = [arguments[0], arguments[1]];
const file = (name) => new File(["A note on " + name], name);
const entry = (name, inside) => inside === null
  ? { name, isFile: true, isDirectory: false, file: (give) => give(file(name)) }
  : { name, isFile: false, isDirectory: true, createReader: () => {
      let rest = Object.entries(inside).map(([one, more]) => entry(one, more));
      return { readEntries: (give) => { const some = rest; rest = []; give(some); } };
    } };
const items = Object.entries(entries).map(
  ([name, inside]) => ({ kind: "file", webkitGetAsEntry: () => entry(name, inside) }));
const event = new Event("drop", { bubbles: true, cancelable: true });
Object.defineProperty(event, "dataTransfer", { value: { items, files: [] } });
document.querySelector(selector).dispatchEvent(event);
"""


def test_a_dropped_folder_is_sent_file_by_file(browser: Browser, server: Server) -> None:
    browser.open("/documents")
    folder = {"notes": {"a.txt": None, "deeper": {"b.txt": None}, ".hidden": None}}
    browser.script(_DROP, ".drop", folder)
    for name in ("a.txt", "b.txt"):
        browser.find(".drop-files .done", T("drop.done").format(name=name))
    browser.find("[data-index=default]")  # indexing follows the drop
    for one in server.client.get("/uploads").json()["files"]:
        if one["name"] in ("a.txt", "b.txt"):
            assert server.client.delete(f"/uploads/{one['id']}").status_code == 200
    server.client.delete("/documents/indexes/default")
    browser.script(_DROP, ".drop", {"bare": {}})
    browser.find(".drop-files .failed", T("drop.empty_folder"))
    browser.open("/books")
    browser.script(_DROP, ".drop", {"novels": {"a.epub": None}})
    browser.find(".drop-files .failed", T("drop.no_folder"))


def test_warnings_of_the_api_are_shown(
    driver: webdriver.Chrome, start: Start, tmp_path: Path
) -> None:
    """What is not installed is said on its tab, and with the answer; a file that is too large is
    not sent.
    """
    (tmp_path / "hidden").mkdir()
    (tmp_path / "hidden" / "sitecustomize.py").write_text(HIDE)
    more = {"PYTHONPATH": str(tmp_path / "hidden"), "PATH": str(tmp_path),
            "ANYRIG_SERVER_UPLOAD_MB": "1"}  # fmt: skip
    server = start(environment=more)
    for visitor in visiting(driver, server.url):
        visitor.open("/documents?tab=scans")
        missing = visitor.find("[data-missing=ocr]", T("documents.missing.ocr"))
        command = missing.find_element("css selector", "[data-copy]").get_attribute("data-copy")
        assert "anyrig[ocr]" in str(command)
        assert not visitor.all("[data-missing=transcription]")
        large = tmp_path / "large.txt"
        large.write_text("word " * 300_000)
        visitor.all("input[type=file]")[0].send_keys(str(large))
        visitor.find(".drop-files .failed", "The file has 1.5 MB; the limit is 1 MB.")
        refused = server.client.post("/uploads", files={"files": ("x.txt", large.read_bytes())})
        assert refused.status_code == 413
        assert "limit of 1 MB (the request has 1.5 MB)" in refused.json()["title"]
        (tmp_path / "boiler.png").write_bytes(scan())
        visitor.all("input[type=file]")[0].send_keys(str(tmp_path / "boiler.png"))
        visitor.find(".note", "Files that could not be read: 1")  # indexed at once, and told
        visitor.find(".note", "OCR")
        visitor.click("[data-tab=entities]")
        visitor.until(
            lambda visitor=visitor: visitor.driver.current_url.endswith("?tab=entities")  # type: ignore[misc]
        )
        visitor.find("[data-missing=names]", T("documents.missing.names"))
        visitor.write("[name=entities-text]", "Anna Smith paid 12 euros on 5 May 2024 in Paris.")
        visitor.click("[data-do=entities]")
        visitor.find("[data-answer=entities] table", "12 euros")
        notes = visitor.all("[data-answer=entities] .note")
        assert len(notes) == 1
        assert "only some people, organisations and places are found" in notes[0].text
        assert "anyrig[entities]" in notes[0].text


def test_privacy_is_told_as_it_is(browser: Browser) -> None:
    browser.open("/speak")
    browser.says(T("frame.local"), ".lead")
    browser.says(T("frame.stays"), ".foot")


def test_with_a_cluster_the_page_says_where_texts_go(
    driver: webdriver.Chrome, broker: object, start: Start
) -> None:
    server = start("--cluster", broker.url)  # type: ignore[attr-defined]
    for visitor in visiting(driver, server.url):
        for path, text in (("/speak", "frame.cluster"), ("/books", "frame.cluster"),
                           ("/documents", "documents.cluster")):  # fmt: skip
            visitor.open(path)
            visitor.says(T(text), ".lead")
            visitor.says(T("frame.stays.cluster"), ".foot")
            assert "Nothing" not in visitor.find("body").text
