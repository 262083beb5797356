"""The looks of a report: one style for light and dark, for a wide screen and a phone."""

from anyrig import plots

CSS = plots.CSS + """
:root { --page: #f6f7f9; }
@media (prefers-color-scheme: dark) { :root { --page: #12161c; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); line-height: 1.45;
  font: 15px/1.45 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif; }
main { max-width: 76rem; margin: 0 auto; padding: 1.25rem 1rem 3rem; }
h1 { font-size: 1.5rem; margin: 0 0 .15rem; overflow-wrap: anywhere; }
h2 { font-size: 1.1rem; margin: 2rem 0 .6rem; }
h3 { font-size: .95rem; margin: 0 0 .35rem; font-weight: 600; }
h3 small { color: var(--soft); font-weight: 400; }
.sub { color: var(--soft); margin: 0 0 1.1rem; overflow-wrap: anywhere; }
.tiles { display: grid; gap: .6rem;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 8.2rem), 1fr)); }
.tile, .card { background: var(--card); border: 1px solid var(--rule); border-radius: 10px; }
.tile { padding: .6rem .75rem; }
.tile span { display: block; color: var(--soft); font-size: .8rem; }
.tile b { font-size: 1.2rem; font-variant-numeric: tabular-nums; white-space: nowrap; }
.tile em { display: block; color: var(--soft); font-size: .78rem; font-style: normal; }
.charts { display: grid; gap: .8rem; margin-top: .8rem;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 27rem), 1fr)); }
.card { padding: .8rem .9rem; min-width: 0; }
svg { display: block; width: 100%; height: auto; overflow: visible; }
svg.narrow { display: none; }
@media (max-width: 34rem) { svg.wide { display: none; } svg.narrow { display: block; }
  main { padding: .9rem .6rem 2rem; } .card { padding: .65rem .6rem; } }
.legend { list-style: none; display: flex; flex-wrap: wrap; gap: .1rem .9rem; margin: .3rem 0 0;
  padding: 0; font-size: .82rem; color: var(--soft); }
.key { display: inline-block; width: .8em; height: .8em; border-radius: 2px; margin-right: .4em;
  vertical-align: -.05em; }
.key.line, .key.faint, .key.steps { height: 3px; width: 1.1em; vertical-align: .25em; }
.key.dots { border-radius: 50%; }
.key.bad { background: var(--bad); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; }
th, td { text-align: left; vertical-align: top; padding: .3rem .6rem .3rem 0;
  border-top: 1px solid var(--rule); overflow-wrap: anywhere; }
tr:first-child > * { border-top: 0; }
th { color: var(--soft); font-weight: 400; width: 34%; min-width: 6rem; }
td.n { white-space: nowrap; font-variant-numeric: tabular-nums; color: var(--soft); width: 1%; }
.warn { color: var(--bad); }
.pair { display: grid; gap: .8rem;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 27rem), 1fr)); align-items: start; }
.none { color: var(--soft); }
@media (max-width: 34rem) { .facts th, .facts td { display: block; width: auto; padding-right: 0; }
  .facts th { padding-bottom: 0; font-size: .82rem; } .facts td { border-top: 0; padding-top: 0; } }
@media print { body { background: none; } .card { break-inside: avoid; } }
"""  # fmt: skip
