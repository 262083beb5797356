"""What files hold together: figures, small charts, groups and duplicates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from anyrig.server.page.charts import Chart, bars
from anyrig.server.page.documents_desk import Asking, unread
from anyrig.server.page.pieces import table, tag

Told = Mapping[str, Any]
_MOST = 12


class Report(Asking):
    """An analysis of the chosen files."""

    key = "report"

    def fields(self) -> None:
        """Files alone: a single text has nothing to be compared with."""

    async def ask(self) -> Any:
        """All that are chosen."""
        return await self.here.api.post("/documents/analyse", self.desk.sources(""))

    def show(self, told: Told) -> None:
        """From the whole to the single files."""
        t = self.t
        left = told.get("failed") or ()
        for one in left:
            name = str(one["name"])
            unread(self.desk, name, self.desk.id_of(name), str(one["error"]), str(one["hint"]))
        self.desk.mark([(str(one["name"]), str(one["error"])) for one in left])
        with tag("div", classes="tiles"):
            self._tile(t("documents.report.docs"), t.number(told["num_documents"]))
            self._tile(t("documents.report.words"), t.number(told["num_words"]))
            self._tile(t("documents.report.groups"), t.number(len(told["clusters"])))
            self._tile(t("documents.report.copies"), t.number(len(told["duplicates"])))
        self._languages(told)
        self._phrases(told)
        self._groups(told)
        self._copies(told)
        self._documents(told)

    def _tile(self, name: str, value: str) -> None:
        with tag("div", classes="tile"):
            tag("b", value)
            tag("span", name, classes="soft")

    def _languages(self, told: Told) -> None:
        t = self.t
        rows = [(t.known(f"documents.tongue.{name}", name), float(share), t.percent(share))
                for name, share in list(told["languages"].items())[:6]]  # fmt: skip
        tag("h3", t("documents.report.languages"))
        said = ", ".join(f"{name} {words}" for name, _, words in rows)
        Chart(f"{t('documents.report.languages')}: {said}", bars(rows))

    def _phrases(self, told: Told) -> None:
        tag("h3", self.t("documents.report.phrases"))
        with tag("ul", classes="tags"):
            for one in told["phrases"][:_MOST]:
                tag("li", str(one["text"]))

    def _groups(self, told: Told) -> None:
        t = self.t
        tag("h3", t("documents.report.groups"))
        if not told["clusters"]:
            tag("p", t("documents.report.groups.none"), classes="soft")
        for one in told["clusters"][:_MOST]:
            with tag("div", classes="hit"):
                tag("b", str(one["name"]))
                tag("p", ", ".join(map(str, one["files"][:8])), classes="soft")

    def _copies(self, told: Told) -> None:
        t = self.t
        tag("h3", t("documents.report.copies"))
        if not told["duplicates"]:
            tag("p", t("documents.report.copies.none"), classes="soft")
        for group in told["duplicates"][:_MOST]:
            for copy in group["copies"]:
                share, name = t.percent(copy["similarity"]), str(group["file"])
                words = (t("documents.report.same", name=name) if copy["exact"]
                         else t("documents.report.like", share=share, name=name))  # fmt: skip
                tag("p", f"{copy['file']}: {words}", data_copy_of=name)

    def _documents(self, told: Told) -> None:
        t = self.t
        heads = [t("documents.file"), t("documents.report.language"), t("documents.report.words"),
                 t("documents.report.read"), t("documents.report.phrases")]  # fmt: skip
        tag("h3", t("documents.report.docs"))
        with table(heads, label=t("documents.report.docs")):
            for one in told["documents"]:
                with tag("tr", data_document=one["file"]):
                    tag("td", str(one["file"]))
                    tongue = str(one.get("language") or "")
                    tag("td", t.known(f"documents.tongue.{tongue}", tongue))
                    tag("td", t.number(one.get("num_words") or 0), classes="figures")
                    ease = one.get("ease")
                    tag("td", "–" if ease is None else t.number(ease), classes="figures")
                    tag("td", ", ".join(str(p["text"]) for p in one["phrases"][:3]), classes="soft")
