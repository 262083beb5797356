// Many lines: each is made, heard, edited and made again by itself; all are kept as one file.
import { ask, save, zip } from "/page/assets/sound.js";

const KEPT = "lines";
const AT_ONCE = 3;
export default {
  template: `
    <div class="stack lines" :data-made="made" :data-busy="busy">
      <div class="field"><label for="paste">{{ words.paste }}</label>
        <textarea id="paste" rows="3" v-model="pasted" :placeholder="words.paste_hint"></textarea></div>
      <div class="row">
        <button type="button" class="button plain" id="add-lines" :disabled="!pasted.trim()" @click="add">
          <span class="icon" v-html="icons.plus"></span><span>{{ words.add }}</span></button>
      </div>
      <div v-if="!rows.length" class="empty"><span class="icon" v-html="icons.list"></span>
        <p class="empty-title">{{ words.none }}</p><p class="soft">{{ words.none_hint }}</p></div>
      <template v-else>
        <ol class="line-list">
          <li v-for="(row, number) in rows" :key="row.key" class="line" :data-state="row.state" :data-seconds="row.seconds">
            <span class="line-number figures" aria-hidden="true">{{ number + 1 }}</span>
            <textarea rows="1" v-model="row.text" :aria-label="say('text_of', number)" @input="edited(row, $event)" ref="texts"></textarea>
            <span class="badge" :class="mood(row)">{{ told(row) }}</span>
            <span class="line-buttons">
              <button type="button" class="button quiet" :disabled="!row.url" :aria-label="say(sounding === row.key ? 'stop_line' : 'hear', number)"
                data-do="hear" @click="hear(row)"><span class="icon" v-html="sounding === row.key ? icons.stop : icons.play"></span></button>
              <button type="button" class="button quiet" :disabled="row.state === 'making' || !row.text.trim()" :aria-label="say('make', number)"
                data-do="make" @click="make(row)"><span class="icon" v-html="icons.again"></span></button>
              <button type="button" class="button quiet" :disabled="!row.url" :aria-label="say('download', number)" data-do="download"
                @click="keep(row, number)"><span class="icon" v-html="icons.download"></span></button>
              <button type="button" class="button quiet" :aria-label="say('remove', number)" data-do="remove" @click="remove(row)">
                <span class="icon" v-html="icons.bin"></span></button>
            </span>
            <p v-if="row.why" class="line-why" role="alert">{{ row.why }}</p>
          </li>
        </ol>
        <div class="row ends">
          <div class="row">
            <button v-if="!busy" type="button" class="button primary" id="make-all" :disabled="!waiting.length" @click="all">
              <span class="icon" v-html="icons.speak"></span><span>{{ words.make_all }} ({{ waiting.length }})</span></button>
            <button v-else type="button" class="button plain" id="stop-all" @click="halt">
              <span class="icon" v-html="icons.stop"></span><span>{{ words.stop }}</span></button>
            <button type="button" class="button plain" id="as-job" :disabled="busy || !rows.length" @click="job">{{ words.as_job }}</button>
          </div>
          <div class="row">
            <label class="only-read" for="lines-format">{{ words.format }}</label>
            <select id="lines-format" v-model="format" @change="changed"><option v-for="one in formats" :key="one" :value="one">{{ one.toUpperCase() }}</option></select>
            <button type="button" class="button plain" id="download-all" :disabled="!made" @click="keepAll">
              <span class="icon" v-html="icons.download"></span><span>{{ words.download_all }}</span></button>
          </div>
        </div>
        <p class="soft" role="status">{{ words.count.replace("{made}", made).replace("{all}", rows.length) }}</p>
      </template>
      <audio ref="audio" @ended="sounding = null" @pause="sounding = null"></audio>
    </div>`,
  props: { words: Object, icons: Object, formats: Array, request: Object },
  emits: ["failed", "queued", "made"],
  data() {
    return { rows: [], pasted: "", key: 0, sounding: null, busy: false, format: "mp3" };
  },
  computed: {
    made() {
      return this.rows.filter((row) => row.state === "made").length;
    },
    waiting() {
      return this.rows.filter((row) => row.state !== "made" && row.state !== "making" && row.text.trim());
    },
  },
  created() {
    const kept = anyrig.kept(KEPT);
    if (Array.isArray(kept)) kept.forEach((text) => this.put(String(text)));
  },
  mounted() {
    this.fit();
  },
  watch: {
    request(now, before) {
      if (JSON.stringify(now) !== JSON.stringify(before)) this.changed();
    },
  },
  methods: {
    put(text) {
      this.rows.push({ key: ++this.key, text, state: "new", seconds: "", url: null, why: "" });
    },
    add() {
      for (const text of this.pasted.split(/\r?\n/)) if (text.trim()) this.put(text.trim());
      this.pasted = "";
      this.remember();
      this.fit();
    },
    remember() {
      anyrig.keep(KEPT, this.rows.map((row) => row.text));
    },
    fit() {
      this.$nextTick(() => this.$el.querySelectorAll(".line textarea").forEach((one) => {
        one.style.height = "auto";
        one.style.height = one.scrollHeight + 2 + "px";
      }));
    },
    edited(row) {
      if (row.state !== "new") row.state = "changed";
      this.remember();
      this.fit();
    },
    changed() {
      for (const row of this.rows) if (row.state === "made") row.state = "changed";
    },
    remove(row) {
      row.stopper?.abort();
      if (row.url) URL.revokeObjectURL(row.url);
      this.rows = this.rows.filter((one) => one !== row);
      this.remember();
    },
    async make(row) {
      const stopper = (row.stopper = new AbortController());
      const text = row.text;
      row.state = "making";
      row.why = "";
      try {
        const answer = await ask({ ...this.request, input: text, response_format: this.format, lane: "bulk" }, stopper.signal);
        const blob = await answer.blob();
        if (row.url) URL.revokeObjectURL(row.url);
        row.blob = Vue.markRaw(blob);
        row.url = URL.createObjectURL(blob);
        row.seconds = await this.length(row.url);
        row.ending = this.format;
        row.state = row.text === text ? "made" : "changed";
        this.$emit("made", row.seconds);
      } catch (error) {
        row.state = row.url ? "changed" : "new";
        if (stopper.signal.aborted) return;
        row.why = [error.message, error.hint].filter(Boolean).join(". ");
        row.state = "failed";
      }
    },
    length(url) {
      return new Promise((resolve) => {
        const audio = new Audio(url);
        audio.onloadedmetadata = () => resolve(audio.duration);
        audio.onerror = () => resolve(0);
      });
    },
    async all() {
      this.busy = true;
      this.halted = false;
      const queue = [...this.waiting];
      const work = async () => {
        while (queue.length && !this.halted) await this.make(queue.shift());
      };
      await Promise.all(Array.from({ length: AT_ONCE }, work));
      this.busy = false;
    },
    halt() {
      this.halted = true;
      for (const row of this.rows) row.stopper?.abort();
    },
    hear(row) {
      const audio = this.$refs.audio;
      if (this.sounding === row.key) return audio.pause();
      audio.src = row.url;
      audio.play().then(() => (this.sounding = row.key));
    },
    name(row, number) {
      return String(number + 1).padStart(3, "0") + "." + row.ending;
    },
    keep(row, number) {
      save(row.blob, this.name(row, number));
    },
    async keepAll() {
      const files = this.rows.map((row, number) => ({ row, number })).filter(({ row }) => row.blob);
      save(await zip(files.map(({ row, number }) => ({ name: this.name(row, number), blob: row.blob }))), "lines.zip");
    },
    job() {
      const texts = this.rows.map((row) => row.text.replace(/\s+/g, " ").trim()).filter(Boolean);
      this.$emit("queued", { lines: texts, format: this.format });
    },
    say(key, number) {
      return this.words[key].replace("{number}", number + 1);
    },
    told(row) {
      const length = row.state === "made" && row.seconds ? " " + row.seconds.toLocaleString(document.documentElement.lang, { minimumFractionDigits: 1, maximumFractionDigits: 1 }) + " s" : "";
      return this.words["state_" + row.state] + length;
    },
    mood(row) {
      return { made: "good", failed: "bad", making: "warn", changed: "warn" }[row.state] || "";
    },
  },
};
