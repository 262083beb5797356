"""What stands in texts: names and dates, the classes they belong to, the sentences that matter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from anyrig.server.page.api import Refused
from anyrig.server.page.charts import Chart, bars
from anyrig.server.page.documents_desk import Asking, failures
from anyrig.server.page.pieces import Field, card, table, tag

Told = Mapping[str, Any]
_MOST_ROWS = 300


class Entities(Asking):
    """People, places, dates, amounts."""

    key = "entities"

    async def ask(self) -> Any:
        """Each thing once a document."""
        asked = self.desk.sources(self.typed())
        return await self.here.api.post("/documents/entities", {**asked, "distinct": True})

    def show(self, told: Told) -> None:
        """How many of each kind, then all of them."""
        t = self.t
        failures(self.desk, told["results"])
        rows = [(one["name"], entity) for one in told["results"] if one.get("result")
                for entity in one["result"]["entities"]]  # fmt: skip
        if not rows:
            tag("p", t("documents.entities.none"), classes="soft")
            return
        kinds = Counter(str(entity["kind"]) for _, entity in rows)
        said = [(t.known(f"documents.kind.{kind}", kind), float(count), t.number(count))
                for kind, count in kinds.most_common(8)]  # fmt: skip
        label = ", ".join(f"{name} {words}" for name, _, words in said)
        Chart(f"{t('documents.kind')}: {label}", bars(said))
        heads = [t(f"documents.{one}") for one in ("kind", "value", "file", "count")]
        with table(heads, label=t("documents.tab.entities")):
            for name, entity in rows[:_MOST_ROWS]:
                with tag("tr", data_entity=entity["kind"]):
                    tag("td", t.known(f"documents.kind.{entity['kind']}", str(entity["kind"])))
                    tag("td", str(entity["text"]))
                    tag("td", str(name), classes="soft")
                    tag("td", t.number(entity.get("count") or 1), classes="figures")


class Classes(Asking):
    """Which of some classes a text belongs to."""

    key = "classes"

    def fields(self) -> None:
        """The classes, and a text."""
        t = self.t
        self._labels = Field("text", t("documents.labels"), "", live=True, name="labels",
                             placeholder=t("documents.labels.such"))  # fmt: skip
        self.box()

    async def ask(self) -> Any:
        """By labels that were typed."""
        labels = list(dict.fromkeys(
            word.strip() for word in str(self._labels.value).split(",") if word.strip()
        ))  # fmt: skip
        if len(labels) < 2:
            raise Refused(400, self.t("documents.labels.none"), self.t("documents.labels.such"))
        asked = self.desk.sources(self.typed())
        return await self.here.api.post("/documents/classify", {**asked, "labels": labels})

    def show(self, told: Told) -> None:
        """A row for each source."""
        t = self.t
        failures(self.desk, told["results"])
        done = [one for one in told["results"] if one.get("result")]
        if not done:
            return
        heads = [t(f"documents.{one}") for one in ("file", "class", "sure")]
        with table(heads, label=t("documents.tab.classes")):
            for one in done:
                result = one["result"]
                with tag("tr", data_class=result["label"] or ""):
                    tag("td", str(one["name"]))
                    with tag("td"):
                        tag("b", str(result["label"] or "–"))
                    with tag("td"), tag("div", classes="share"):
                        with tag("div", classes="bar", aria_hidden="true"):
                            share = float(result["probability"])
                            tag("div", classes="fill").style(f"width:{100 * share:.1f}%")
                        tag("span", t.percent(share), classes="figures")


class Summary(Asking):
    """The sentences that say most."""

    key = "summary"

    def fields(self) -> None:
        """How many, and a text."""
        self._sentences = Field("number", self.t("documents.sentences"), 5, live=True,
                                name="sentences", min=1, max=50)  # fmt: skip
        self.box()

    async def ask(self) -> Any:
        """By the text's own sentences."""
        asked = self.desk.sources(self.typed())
        count = max(1, min(1000, int(self._sentences.value or 5)))
        return await self.here.api.post("/documents/summarise", {**asked, "sentences": count})

    def show(self, told: Told) -> None:
        """One sheet for each source."""
        failures(self.desk, told["results"])
        for one in told["results"]:
            for summary in (one.get("result") or {}).get("summaries", ()):
                title = " · ".join(filter(None, [str(one["name"]), str(summary["title"] or "")]))
                with card(title, level=3, classes="hit"):
                    tag("p", str(summary["text"]), classes="passage", data_summary=one["name"])
