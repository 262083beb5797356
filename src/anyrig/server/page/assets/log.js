// The log of a job, as it is told: server-sent events, read by the browser itself.
export default {
  template: `
    <div class="log" role="log" tabindex="0" :aria-label="words.label" ref="box">
      <p v-if="!lines.length" class="soft">{{ words.none }}</p>
      <p v-for="line in lines" :key="line.key" :class="line.mood"><time>{{ line.time }}</time>
        <span>{{ line.text }}</span></p>
    </div>`,
  props: { url: String, words: Object },
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
      const answer = await fetch(this.url, { headers, signal: this.stop.signal });
      if (!answer.ok) return (this.ended = answer.status === 404);
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = "";
      for (;;) {
        const { value, done } = await reader.read();
        if (done) return;
        const frames = (rest + value).split(/\r?\n\r?\n/);
        rest = frames.pop();
        frames.forEach(this.frame);
      }
    },
    frame(text) {
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
      let told;
      try {
        told = JSON.parse(event.data);
      } catch (error) {
        return;
      }
      const inner = told.data && typeof told.data === "object" ? told.data : told;
      this.add(event.event || told.kind || "said", inner, told.time);
    },
    add(kind, told, time) {
      const when = typeof time === "number" ? new Date(time * 1000) : new Date();
      const line = { kind, text: this.say(kind, told), mood: told.state === "failed" || kind === "failed" ? "bad" : "",
        time: when.toLocaleTimeString([], { hour12: false }) };
      if (!line.text) return;
      if (kind === "state") this.ended = ["done", "failed", "cancelled"].includes(told.state);
      const last = this.lines[this.lines.length - 1];
      // Progress is one line that moves, not thousands.
      if (last && last.kind === "progress" && kind === "progress") Object.assign(last, line);
      else this.lines.push({ key: ++this.key, ...line });
      if (this.lines.length > 500) this.lines.splice(0, 100);
      const box = this.$refs.box;
      if (box && box.scrollHeight - box.scrollTop - box.clientHeight < 40)
        this.$nextTick(() => (box.scrollTop = box.scrollHeight));
    },
    say(kind, told) {
      if (kind === "state") return this.words.states[told.state] || told.state;
      if (kind === "progress") {
        const share = typeof told.done === "number" ? Math.round(100 * told.done) + " %" : "";
        return [share, told.stage, told.title].filter(Boolean).join(" · ");
      }
      const said = told.text || told.error || told.message || told.title;
      const facts = Object.entries(told)
        .filter(([name, one]) => name !== "event" && ["string", "number", "boolean"].includes(typeof one))
        .map(([name, one]) => name + " " + one);
      const hint = told.hint ? " " + told.hint : "";
      return kind + ": " + (said ? said + hint : facts.slice(0, 6).join(", "));
    },
  },
};
