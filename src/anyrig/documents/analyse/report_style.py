"""How the report looks: light, dark, on paper and on a telephone; no script, nothing fetched."""

from __future__ import annotations

STYLE = """
:root{color-scheme:light dark;--back:#fff;--card:#fff;--text:#1d2430;--dim:#5a6473;--line:#dfe3e8;
--track:#edf0f3;--c0:#3566a8;--c1:#c8591b;--c2:#2c8a57;--c3:#a63a79;--c4:#8a6d00;--c5:#0d7f93;
--c6:#7353ba;--c7:#b03a3a}
@media (prefers-color-scheme:dark){:root{--back:#14181f;--card:#1b2129;--text:#e6eaf0;--dim:#9aa5b4;
--line:#313a46;--track:#2a323d;--c0:#7aa7e6;--c1:#f0935a;--c2:#63c692;--c3:#e084b8;--c4:#d9b840;
--c5:#4fc3d6;--c6:#b59bf0;--c7:#ee8080}}
*{box-sizing:border-box}
body{margin:0;background:var(--back);color:var(--text);
font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",sans-serif}
main{max-width:1180px;margin:0 auto;padding:24px 20px 48px}
h1{font-size:1.7rem;line-height:1.2;margin:0 0 4px;overflow-wrap:anywhere}
h3{font-size:.95rem;margin:12px 0 4px;overflow-wrap:anywhere}
h2{overflow-wrap:anywhere;font-size:1.08rem;margin:0 0 10px}
p{margin:0 0 10px}.dim{color:var(--dim)}
.tiles{display:flex;flex-wrap:wrap;gap:10px;margin:18px 0 22px;padding:0;list-style:none}
.tiles li{border:1px solid var(--line);border-radius:8px;padding:8px 14px;min-width:104px;
background:var(--card)}
.tiles b{display:block;font-size:1.3rem;line-height:1.3}.tiles span{color:var(--dim)}
.plots{display:grid;grid-template-columns:repeat(2,minmax(0,1fr));gap:0 18px;align-items:start}
section{border:1px solid var(--line);border-radius:10px;padding:16px 18px;background:var(--card);
min-width:0;break-inside:avoid;margin:0 0 18px}
svg{display:block;width:100%;height:auto;max-width:490px;margin:0 auto;
font:13px system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",sans-serif}
svg text{fill:var(--text)}svg .value{fill:var(--dim)}svg .name{font-size:10.5px;fill:var(--dim)}
svg .track{fill:var(--track)}svg .axis{stroke:var(--line)}
svg .frame{fill:none;stroke:var(--line)}
.c0{fill:var(--c0)}.c1{fill:var(--c1)}.c2{fill:var(--c2)}.c3{fill:var(--c3)}.c4{fill:var(--c4)}
.c5{fill:var(--c5)}.c6{fill:var(--c6)}.c7{fill:var(--c7)}
.dot{fill-opacity:.75}.spot{fill:var(--card);fill-opacity:.85;stroke-width:2}
svg .spotted{font-weight:700;font-size:12px}
.s0{stroke:var(--c0)}.s1{stroke:var(--c1)}.s2{stroke:var(--c2)}.s3{stroke:var(--c3)}
.s4{stroke:var(--c4)}.s5{stroke:var(--c5)}.s6{stroke:var(--c6)}.s7{stroke:var(--c7)}
.chip{display:inline-flex;align-items:center;justify-content:center;width:1.5em;height:1.5em;
border:2px solid;border-radius:50%;font-size:.8em;font-weight:700;margin-right:8px;flex:none}
.k0{border-color:var(--c0)}.k1{border-color:var(--c1)}.k2{border-color:var(--c2)}
.k3{border-color:var(--c3)}.k4{border-color:var(--c4)}.k5{border-color:var(--c5)}
.k6{border-color:var(--c6)}.k7{border-color:var(--c7)}
.clusters{list-style:none;margin:0;padding:0}
.clusters li{display:flex;align-items:baseline;padding:6px 0;border-top:1px solid var(--line)}
.clusters li:first-child{border-top:0}
.clusters div{min-width:0;overflow-wrap:anywhere}
table{border-collapse:collapse;width:100%;font-size:.92em}
th{text-align:left;font-weight:600;color:var(--dim);white-space:nowrap}
th,td{padding:5px 10px 5px 0;border-bottom:1px solid var(--line);vertical-align:top}
td:first-child{overflow-wrap:anywhere;min-width:130px}
.n{text-align:right;white-space:nowrap}
.scroll{overflow-x:auto}
.files{min-width:760px}.files td:first-child{min-width:180px;max-width:320px}
.key{overflow-wrap:anywhere}
.files .key{min-width:200px}
details{margin-top:12px}summary{cursor:pointer;color:var(--dim)}
del{color:var(--c7);text-decoration:none}ins{color:var(--c2);text-decoration:none}
del::before{content:"− "}ins::before{content:"+ "}
.change{display:block;padding:3px 0;overflow-wrap:anywhere}.change del,.change ins{display:block}
blockquote{margin:4px 0 0;padding-left:10px;border-left:3px solid var(--line);color:var(--dim);
overflow-wrap:anywhere}
footer{margin-top:22px;color:var(--dim);font-size:.9em}
@media screen and (max-width:760px){main{padding:16px 12px 32px}
.plots{grid-template-columns:minmax(0,1fr)}
section{padding:13px 12px;margin-bottom:12px}.tiles li{flex:1 1 28%;min-width:0;padding:6px 10px}
.tiles b{font-size:1.1rem}}
@media print{:root{--back:#fff;--card:#fff;--text:#000;--dim:#444;--line:#bbb;--track:#eee;
--c0:#3566a8;--c1:#c8591b;--c2:#2c8a57;--c3:#a63a79;--c4:#8a6d00;--c5:#0d7f93;--c6:#7353ba;
--c7:#b03a3a}*{print-color-adjust:exact;-webkit-print-color-adjust:exact}body{font-size:9.5pt}
main{max-width:none;padding:0}.plots{gap:0 12px}
section{padding:10px 12px;margin-bottom:12px}svg{max-width:340px}.scroll{overflow:visible}
.files{min-width:0}
.files td:first-child,.files .key{min-width:0}summary{display:none}
details::details-content{content-visibility:visible;display:block}
@page{margin:14mm}}
"""
