// A table of lines: each is synthesized, played and edited on its own; all can be downloaded as one file.
import { requestSpeech, save, zip } from "/page/assets/sound.js";

const STORED_AS = "lines";
const CONCURRENCY = 3;
export default {
  template: `
    <div class="stack lines" :data-made="made" :data-busy="busy">
      <div class="field"><label for="paste">{{ texts.paste }}</label>
        <textarea id="paste" rows="3" v-model="pasted" :placeholder="texts.paste_hint"></textarea></div>
      <div class="row">
        <button type="button" class="button plain" id="add-lines" :disabled="!pasted.trim()" @click="add">
          <span class="icon" v-html="icons.plus"></span><span>{{ texts.add }}</span></button>
      </div>
      <div v-if="!rows.length" class="empty"><span class="icon" v-html="icons.list"></span>
        <p class="empty-title">{{ texts.none }}</p><p class="soft">{{ texts.none_hint }}</p></div>
      <template v-else>
        <ol class="line-list">
          <li v-for="(row, number) in rows" :key="row.key" class="line" :data-state="row.state" :data-seconds="row.seconds">
            <span class="line-number figures" aria-hidden="true">{{ number + 1 }}</span>
            <textarea rows="1" v-model="row.text" :aria-label="label('text_of', number)" @input="handleEdit(row, $event)" ref="texts"></textarea>
            <span class="badge" :class="mood(row)">{{ describe(row) }}</span>
            <span class="line-buttons">
              <button type="button" class="button quiet" :disabled="!row.url" :aria-label="label(playing === row.key ? 'stop_line' : 'hear', number)"
                data-do="hear" @click="play(row)"><span class="icon" v-html="playing === row.key ? icons.stop : icons.play"></span></button>
              <button type="button" class="button quiet" :disabled="row.state === 'making' || !row.text.trim()" :aria-label="label('make', number)"
                data-do="make" @click="make(row)"><span class="icon" v-html="icons.again"></span></button>
              <button type="button" class="button quiet" :disabled="!row.url" :aria-label="label('download', number)" data-do="download"
                @click="download(row, number)"><span class="icon" v-html="icons.download"></span></button>
              <button type="button" class="button quiet" :aria-label="label('remove', number)" data-do="remove" @click="remove(row)">
                <span class="icon" v-html="icons.bin"></span></button>
            </span>
            <p v-if="row.error" class="line-why" role="alert">{{ row.error }}</p>
          </li>
        </ol>
        <div class="row ends">
          <div class="row">
            <button v-if="!busy" type="button" class="button primary" id="make-all" :disabled="!waiting.length" @click="makeAll">
              <span class="icon" v-html="icons.speak"></span><span>{{ texts.make_all }} ({{ waiting.length }})</span></button>
            <button v-else type="button" class="button plain" id="stop-all" @click="stopAll">
              <span class="icon" v-html="icons.stop"></span><span>{{ texts.stop }}</span></button>
            <button type="button" class="button plain" id="as-job" :disabled="busy || !rows.length" @click="queue">{{ texts.as_job }}</button>
          </div>
          <div class="row">
            <label class="only-read" for="lines-format">{{ texts.format }}</label>
            <select id="lines-format" v-model="format" @change="markChanged"><option v-for="one in formats" :key="one" :value="one">{{ one.toUpperCase() }}</option></select>
            <button type="button" class="button plain" id="download-all" :disabled="!made" @click="downloadAll">
              <span class="icon" v-html="icons.download"></span><span>{{ texts.download_all }}</span></button>
          </div>
        </div>
        <p class="soft" role="status">{{ texts.count.replace("{made}", made).replace("{all}", rows.length) }}</p>
      </template>
      <audio ref="audio" @ended="playing = null" @pause="playing = null"></audio>
    </div>`,
  props: { texts: Object, icons: Object, formats: Array, request: Object },
  emits: ["failed", "queued", "made"],
  data() {
    return { rows: [], pasted: "", key: 0, playing: null, busy: false, format: "mp3" };
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
    const stored = anyrig.load(STORED_AS);
    if (Array.isArray(stored)) stored.forEach((text) => this.append(String(text)));
  },
  mounted() {
    this.fit();
  },
  watch: {
    request(now, before) {
      if (JSON.stringify(now) !== JSON.stringify(before)) this.markChanged();
    },
  },
  methods: {
    append(text) {
      this.rows.push({ key: ++this.key, text, state: "new", seconds: "", url: null, error: "" });
    },
    add() {
      for (const text of this.pasted.split(/\r?\n/)) if (text.trim()) this.append(text.trim());
      this.pasted = "";
      this.store();
      this.fit();
    },
    store() {
      anyrig.store(STORED_AS, this.rows.map((row) => row.text));
    },
    fit() {
      this.$nextTick(() => this.$el.querySelectorAll(".line textarea").forEach((one) => {
        one.style.height = "auto";
        one.style.height = one.scrollHeight + 2 + "px";
      }));
    },
    handleEdit(row) {
      if (row.state !== "new") row.state = "changed";
      this.store();
      this.fit();
    },
    markChanged() {
      for (const row of this.rows) if (row.state === "made") row.state = "changed";
    },
    remove(row) {
      row.abort?.abort();
      if (row.url) URL.revokeObjectURL(row.url);
      this.rows = this.rows.filter((one) => one !== row);
      this.store();
    },
    async make(row) {
      const abort = (row.abort = new AbortController());
      const text = row.text;
      row.state = "making";
      row.error = "";
      try {
        const response = await requestSpeech({ ...this.request, input: text, response_format: this.format, lane: "bulk" }, abort.signal);
        const blob = await response.blob();
        if (row.url) URL.revokeObjectURL(row.url);
        row.blob = Vue.markRaw(blob);
        row.url = URL.createObjectURL(blob);
        row.seconds = await this.length(row.url);
        row.ending = this.format;
        row.state = row.text === text ? "made" : "changed";
        this.$emit("made", row.seconds);
      } catch (error) {
        row.state = row.url ? "changed" : "new";
        if (abort.signal.aborted) return;
        row.error = [error.message, error.hint].filter(Boolean).join(". ");
        row.state = "failed";
      }
    },
    length(url) {
      return new Promise((resolve) => {
        const audio = new Audio(url);
        // A streamed file has no length in its header: the browser knows it once it was at the end.
        audio.ondurationchange = () => {
          if (Number.isFinite(audio.duration)) resolve(audio.duration);
          else audio.currentTime = 1e9;
        };
        audio.onerror = () => resolve(0);
      });
    },
    async makeAll() {
      this.busy = true;
      this.stopped = false;
      const queue = [...this.waiting];
      const work = async () => {
        while (queue.length && !this.stopped) await this.make(queue.shift());
      };
      await Promise.all(Array.from({ length: CONCURRENCY }, work));
      this.busy = false;
    },
    stopAll() {
      this.stopped = true;
      for (const row of this.rows) row.abort?.abort();
    },
    play(row) {
      const audio = this.$refs.audio;
      if (this.playing === row.key) return audio.pause();
      audio.src = row.url;
      audio.play().then(() => (this.playing = row.key));
    },
    name(row, number) {
      return String(number + 1).padStart(3, "0") + "." + row.ending;
    },
    download(row, number) {
      save(row.blob, this.name(row, number));
    },
    async downloadAll() {
      const files = this.rows.map((row, number) => ({ row, number })).filter(({ row }) => row.blob);
      save(await zip(files.map(({ row, number }) => ({ name: this.name(row, number), blob: row.blob }))), "lines.zip");
    },
    queue() {
      const texts = this.rows.map((row) => row.text.replace(/\s+/g, " ").trim()).filter(Boolean);
      this.$emit("queued", { lines: texts, format: this.format });
    },
    label(key, number) {
      return this.texts[key].replace("{number}", number + 1);
    },
    describe(row) {
      const length = row.state === "made" && row.seconds ? " " + row.seconds.toLocaleString(document.documentElement.lang, { minimumFractionDigits: 1, maximumFractionDigits: 1 }) + " s" : "";
      return this.texts["state_" + row.state] + length;
    },
    mood(row) {
      return { made: "good", failed: "bad", making: "warn", changed: "warn" }[row.state] || "";
    },
  },
};
