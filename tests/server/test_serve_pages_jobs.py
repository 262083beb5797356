"""The page of jobs as a person uses it, and that of the cluster."""

from __future__ import annotations

from typing import Any

from anyrig.server.page.jobs import PAGE_SIZE
from tests.server.browsing import NEEDS, Browser
from tests.server.conftest import Server
from tests.server.long_work import fits, fits_in_every_language, job_of, told

pytestmark = NEEDS


def _sent(busy: Server, name: str, text: str) -> str:
    answer = busy.client.post("/uploads", files={"files": (name, text.encode())})
    return f"upload:{answer.json()['files'][0]['id']}"


def _begun(busy: Server, kind: str, **arguments: Any) -> str:
    answer = busy.client.post("/jobs", json={"kind": kind, "arguments": arguments})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def test_jobs_are_shown_followed_and_deleted(person: Browser, busy: Server, axe: str) -> None:
    lines = ["Good morning.", "Good night."]
    id = _begun(busy, "batch", lines=lines, engine="tone", format="wav")
    card = f"[data-job='{id}']"
    person.open("/jobs")
    person.find(f"{card}[data-state=done]")
    assert "until you delete them" in person.find("[data-which=retention]").text
    assert job_of(busy, id)["state"] == "done"

    made = told(busy, f"/jobs/{id}/files")["files"]
    person.find(f"{card} [data-file='{made[-1]['number']}']")
    links = [one.get_attribute("href") for one in person.all(f"{card} [data-file]")]
    assert links == [busy.url + one["url"] for one in made]

    person.click(f"{card} summary")
    log = person.find(f"{card} [role=log]")
    person.until(lambda: "Done" in log.text)
    assert "Waiting" in log.text
    assert "2 of 2 lines" in log.text  # in the card's words
    said = person.find(f"{card} .job-title").text
    assert "Good morning. and 1 more" in said
    assert "2 lines" in said
    assert "of audio" in said
    fits(person, axe)
    fits_in_every_language(person)

    person.click("[data-filter=active]")
    person.find("[data-filter=active][aria-pressed=true]")
    person.until(lambda: not person.all(card))
    person.click("[data-filter=over]")
    person.find(card)
    person.click(f"{card} [data-do=delete]")
    person.find(".ask[open] h2", "Delete")
    person.driver.switch_to.active_element.send_keys("\ue00c")  # Escape
    person.until(lambda: not person.all(".ask[open]"))
    assert job_of(busy, id)["state"] == "done"
    person.click(f"{card} [data-do=delete]")
    person.click(".ask[open] [data-ask=yes]")
    person.until(lambda: not person.all(card))
    assert busy.client.get(f"/jobs/{id}").status_code == 404


def test_a_job_that_failed_says_what_to_do_and_may_try_again(
    person: Browser, busy: Server, axe: str
) -> None:
    id = _begun(busy, "book", file=_sent(busy, "empty.md", "\n"))
    card = f"[data-job='{id}']"
    person.open("/jobs")
    person.find(f"{card}[data-state=failed]")
    error = job_of(busy, id)["error"]
    said = person.find(f"{card} .trouble").text
    assert error["message"] in said
    assert error["hint"] in said
    fits(person, axe)
    fits_in_every_language(person)
    person.size(360)  # both buttons in one line, on a phone as well
    again = person.find(f"{card} [data-do=resume]", "Try again")
    assert again.location["y"] == person.find(f"{card} [data-do=delete]").location["y"]
    person.size(1440)
    attempts = job_of(busy, id)["attempts"]
    person.click(f"{card} [data-do=resume]")
    person.until(lambda: job_of(busy, id)["attempts"] > attempts)
    person.until(lambda: job_of(busy, id)["state"] == "failed")


_PLACE = """
const around = document.querySelector("CARD").getBoundingClientRect();
const at = document.querySelector("CARD [data-do=NAME]").getBoundingClientRect();
return [Math.round(at.x - around.x), Math.round(at.y - around.y)];
"""


def test_long_work_is_paused_resumed_and_given_up(person: Browser, busy: Server) -> None:
    # Long enough that it is not done before it is paused, however busy the machine is.
    text = " ".join(f"House number {n} was empty, and so was its garden." for n in range(3000))
    id = _begun(busy, "book", file=_sent(busy, "houses.txt", text), title="Houses")
    card = f"[data-job='{id}']"
    person.open("/jobs")
    person.find(f"{card}[data-state=running]")
    person.until(lambda: "%" in person.find(f"{card} .meter").text)
    behind = [_begun(busy, "batch", lines=["Hello."], engine="tone") for _ in range(2)]
    person.find(f"[data-job='{behind[0]}'] .meter", "next in the queue")
    person.speak("es")
    person.find(f"[data-job='{behind[1]}'] .meter", "número 2 en la cola")
    person.speak("fr")
    person.find(f"[data-job='{behind[1]}'] .meter", "numéro 2 dans la file")
    person.speak("en")
    for one in behind:
        busy.client.post(f"/jobs/{one}/cancel")
        busy.client.delete(f"/jobs/{one}")
        # Its card is above: while it goes, a click may miss the button that moves up.
        person.until(lambda one=one: not person.all(f"[data-job='{one}']"))  # type: ignore[misc]

    def place(name: str) -> list[int]:
        """Where a button is in its card, in one reading: cards move while others are removed."""
        person.find(f"{card} [data-do={name}]")
        found: list[int] = person.script(_PLACE.replace("CARD", card).replace("NAME", name))
        return found

    before = {name: place(name) for name in ("pause", "cancel")}
    person.click(f"{card} [data-do=pause]")
    person.find(f"{card}[data-state=paused]")
    # The buttons stay where they are: no other one comes under the pointer.
    assert place("cancel") == before["cancel"]
    assert place("resume") == before["pause"]
    before["delete"] = place("delete")
    assert job_of(busy, id)["state"] == "paused"
    text = f'document.querySelector("{card} .meter").textContent'
    person.click(f"{card} [data-do=resume]")
    person.until(lambda: job_of(busy, id)["state"] == "running")
    person.find(f"{card}[data-state=running]")
    person.until(lambda: " left" in person.script(f"return {text}"))
    person.click(f"{card} [data-do=cancel]")
    person.find(".ask[open] h2", "Stop making “Houses”?")
    person.find(".ask[open] [data-ask=no]", "Keep going")
    person.click(".ask[open] [data-ask=yes]", "Stop")
    person.find(f"{card}[data-state=cancelled] .badge", "Stopped")
    assert (place("resume"), place("delete")) == (before["pause"], before["delete"])
    assert job_of(busy, id)["state"] == "cancelled"
    busy.client.delete(f"/jobs/{id}")  # the next test counts what is listed


def test_old_jobs_wait_until_they_are_asked_for(person: Browser, busy: Server) -> None:
    made = [_begun(busy, "batch", lines=["Hello."], engine="tone") for _ in range(PAGE_SIZE + 2)]
    for id in made:
        busy.client.post(f"/jobs/{id}/cancel")
    try:
        person.open("/jobs")
        person.find("[data-do=older]", "older")
        person.until(lambda: len(person.all("[data-job]")) == PAGE_SIZE)
        assert not person.all(f"[data-job='{made[0]}']")
        person.click("[data-do=older]")
        person.find(f"[data-job='{made[0]}']")
        person.until(lambda: not person.find("#content").find_element(
            "css selector", "[data-do=older]").is_displayed())  # fmt: skip
    finally:
        person.until(lambda: 409 not in [
            busy.client.delete(f"/jobs/{id}").status_code for id in made
        ])  # fmt: skip


def test_the_cluster_says_that_there_is_none(person: Browser) -> None:
    person.open("/cluster")
    assert "Only this machine" in person.find(".empty").text
    person.click(".empty a")
    person.until(lambda: person.driver.current_url == person.url + "/rig")
