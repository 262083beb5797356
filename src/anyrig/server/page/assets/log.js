// The log of a job: server-sent events, read by the browser itself.
export default {
  template: `
    <div class="log" role="log" tabindex="0" :aria-label="texts.label" ref="box">
      <p v-if="!lines.length" class="soft">{{ texts.empty }}</p>
      <p v-for="line in lines" :key="line.key" :class="line.level"><time>{{ line.time }}</time>
        <span>{{ line.text }}</span></p>
    </div>`,
  props: { url: String, texts: Object },
  data() {
    return { lines: [], last: "", key: 0, over: false };
  },
  mounted() {
    this.follow();
  },
  unmounted() {
    this.over = true;
    this.stop?.abort();
  },
  methods: {
    async follow() {
      while (!this.over) {
        try {
          await this.read();
          if (this.ended) return;
        } catch (error) {
          if (this.over) return;
        }
        await new Promise((done) => setTimeout(done, 2000));
      }
    },
    async read() {
      this.stop = new AbortController();
      const headers = this.last ? { "Last-Event-ID": this.last } : {};
      const response = await fetch(this.url, { headers, signal: this.stop.signal });
      // 204: the job is finished and nothing is new. A refusal stays one, but for too many requests.
      const refused = response.status >= 400 && response.status < 500 && response.status !== 429;
      if (response.status === 204 || refused) return (this.ended = true);
      if (!response.ok) return;
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = "";
      for (;;) {
        const { value, done } = await reader.read();
        if (done) return;
        const blocks = (rest + value).split(/\r?\n\r?\n/);
        rest = blocks.pop();
        blocks.forEach(this.parse);
      }
    },
    parse(text) {
      const event = { data: "" };
      for (const line of text.split(/\r?\n/)) {
        const at = line.indexOf(":");
        if (at < 1) continue;
        const value = line.slice(at + 1).replace(/^ /, "");
        if (line.slice(0, at) === "data") event.data += value;
        else event[line.slice(0, at)] = value;
      }
      if (event.id) this.last = event.id;
      if (!event.data) return;
      let data;
      try {
        data = JSON.parse(event.data);
      } catch (error) {
        return;
      }
      const inner = data.data && typeof data.data === "object" ? data.data : data;
      this.add(event.event || data.kind || "said", inner, data.time);
    },
    add(kind, data, time) {
      const when = typeof time === "number" ? new Date(time * 1000) : new Date();
      const line = { kind, text: this.format(kind, data), level: data.state === "failed" || kind === "failed" ? "bad" : "",
        time: when.toLocaleTimeString([], { hour12: false }) };
      if (!line.text) return;
      if (kind === "state") this.ended = ["done", "failed", "cancelled"].includes(data.state);
      const last = this.lines[this.lines.length - 1];
      // Progress is one line that changes, not thousands.
      if (last && last.kind === "progress" && kind === "progress") Object.assign(last, line);
      else this.lines.push({ key: ++this.key, ...line });
      if (this.lines.length > 500) this.lines.splice(0, 100);
      const box = this.$refs.box;
      if (box && box.scrollHeight - box.scrollTop - box.clientHeight < 40)
        this.$nextTick(() => (box.scrollTop = box.scrollHeight));
    },
    format(kind, data) {
      if (kind === "state") return this.texts.states[data.state] || data.state;
      if (kind === "progress") return this.describeProgress(data);
      const label = this.texts.kinds[kind] || "";
      const message = data.text || data.error || data.message || data.title;
      const figures = data.figures || data;
      const values = Object.entries(figures)
        .filter(([name, one]) => name !== "event" && ["string", "number"].includes(typeof one))
        .map(([name, one]) => name + " " + (typeof one === "number" ? Number(one.toPrecision(4)) : one));
      const hint = data.hint ? " " + data.hint : "";
      return [label, message ? message + hint : values.slice(0, 6).join(", ")].filter(Boolean).join(": ");
    },
    // In the words of the job's card.
    describeProgress(data) {
      const { progress, stages } = this.texts;
      const fill = (name, number, all) => progress[name].replace("{number}", number).replace("{all}", all);
      const percent = new Intl.NumberFormat(document.documentElement.lang, { style: "percent" });
      const parts = data.done ? [percent.format(data.done)] : [];
      const stage = stages[data.stage] || data.stage;
      if (data.num_chapters) {
        parts.push(stage);
        if (data.stage === "making") parts.push(fill("chapter", data.chapter || 0, data.num_chapters));
      } else if (data.num_files) parts.push(fill("files", data.file || 0, data.num_files), data.title);
      else if (data.stage === "speaking" && data.num_all) parts.push(fill("lines", data.num_done, data.num_all), data.title);
      else if (data.steps && data.step) {
        parts.push(fill("step", data.step, data.steps));
        if (typeof data.loss === "number") parts.push(progress.loss.replace("{loss}", Number(data.loss.toPrecision(4))));
      } else parts.push(stage, data.title);
      return parts.filter(Boolean).join(" · ");
    },
  },
};
