// A table of lines: each is synthesized, played and edited on its own; all can be downloaded as one file.
// Another take of a line is kept beside it until one of the two is chosen.
import { requestSpeech, save, zip } from "/page/assets/sound.js";

const STORED_AS = "lines";
const CONCURRENCY = 3;
const MAX_NAME = 60; // characters of a text in the name of its file
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
            <select class="line-voice" v-model="row.voice" :aria-label="label('voice_of', number)" @change="handleEdit(row)">
              <option value="">{{ texts.voice_default }}</option>
              <option v-for="one in voices" :key="one.value" :value="one.value">{{ one.label }}</option></select>
            <span class="badge" :class="mood(row)">{{ describe(row) }}</span>
            <span class="line-buttons">
              <button type="button" class="button quiet" :disabled="row.state === 'making' || !row.text.trim()"
                :aria-label="label(playing === row.key ? 'stop_line' : 'hear', number)" data-do="hear" @click="hear(row)"><span class="icon" v-html="playing === row.key ? icons.stop : icons.play"></span></button>
              <button type="button" class="button quiet" :disabled="row.state === 'making' || !row.text.trim() || (row.state === 'made' && !isSeeded(row))"
                :aria-label="label(row.state === 'made' ? 'again' : 'make', number)" :title="row.state === 'made' && !isSeeded(row) ? texts.one_take : undefined"
                data-do="make" @click="make(row)"><span class="icon" v-html="icons.again"></span></button>
              <button type="button" class="button quiet" :disabled="!row.url" :aria-label="label('download', number)" data-do="download"
                @click="download(row, number)"><span class="icon" v-html="icons.download"></span></button>
              <button type="button" class="button quiet" :aria-label="label('remove', number)" data-do="remove" @click="remove(row)">
                <span class="icon" v-html="icons.bin"></span></button>
            </span>
            <div v-if="row.take" class="line-take row" role="group" :aria-label="label('new_take', number)">
              <span class="soft figures">{{ texts.take }} {{ formatLength(row.take.seconds) }}</span>
              <button type="button" class="button plain small" data-do="hear-take" :aria-label="label('hear_take', number)" @click="play(row.key + '-take', row.take.url)">
                <span class="icon" v-html="playing === row.key + '-take' ? icons.stop : icons.play"></span></button>
              <button type="button" class="button plain small" data-do="use-take" @click="useTake(row)">{{ texts.use_take }}</button>
              <button type="button" class="button quiet small" data-do="drop-take" @click="dropTake(row)">{{ texts.drop_take }}</button>
            </div>
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
  props: { texts: Object, icons: Object, formats: Array, request: Object, voices: Array, seeded: Array },
  emits: ["queued", "made"],
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
    if (Array.isArray(stored)) for (const one of stored) this.append(one.text ?? String(one), one.voice);
  },
  mounted() {
    this.fit();
    this.yield = (event) => event.detail !== "lines" && this.$refs.audio.pause();
    window.addEventListener("anyrig-sound", this.yield);
  },
  beforeUnmount() {
    window.removeEventListener("anyrig-sound", this.yield);
    this.stopAll();
    this.$refs.audio.pause();
    for (const row of this.rows) for (const { url } of [row, row.take || {}]) if (url) URL.revokeObjectURL(url);
  },
  watch: {
    request(now, before) {
      if (JSON.stringify(now) !== JSON.stringify(before)) this.markChanged();
    },
  },
  methods: {
    append(text, voice = "") {
      if (!this.voices.some((one) => one.value === voice)) voice = "";
      this.rows.push({ key: ++this.key, text, voice, state: "new", seconds: "", url: null, seed: 0, take: null, error: "" });
    },
    getVoice(row) {
      return row.voice ? this.voices.find((one) => one.value === row.voice).request : {};
    },
    isSeeded(row) {
      return this.seeded.includes(this.getVoice(row).engine ?? this.request.engine);
    },
    add() {
      for (const text of this.pasted.split(/\r?\n/)) if (text.trim()) this.append(text.trim());
      this.pasted = "";
      this.store();
      this.fit();
    },
    store() {
      anyrig.store(STORED_AS, this.rows.map(({ text, voice }) => ({ text, voice })));
    },
    fit() {
      this.$nextTick(() => this.$el.querySelectorAll(".line textarea").forEach((one) => {
        one.style.height = "auto";
        one.style.height = one.scrollHeight + 2 + "px";
      }));
    },
    handleEdit(row) {
      if (row.state !== "new") row.state = "changed";
      this.dropTake(row);
      this.store();
      this.fit();
    },
    markChanged() {
      for (const row of this.rows) {
        if (row.state === "made") row.state = "changed";
        this.dropTake(row);
      }
    },
    remove(row) {
      row.abort?.abort();
      this.dropTake(row);
      if (row.url) URL.revokeObjectURL(row.url);
      this.rows = this.rows.filter((one) => one !== row);
      this.store();
    },
    // A line that is made already gets another take, with another seed.
    async make(row) {
      const abort = (row.abort = new AbortController());
      const [text, again] = [row.text, row.state === "made"];
      const seed = again ? (row.take?.seed ?? row.seed) + 1 : row.seed;
      row.state = "making";
      row.error = "";
      try {
        const voice = this.getVoice(row);
        const request = { ...this.request, ...voice, input: text, response_format: this.format, lane: "bulk" };
        if (voice.engine && voice.engine !== this.request.engine) delete request.options; // they are another engine's
        if (seed) request.seed = seed + (this.request.seed || 0);
        const blob = Vue.markRaw(await (await requestSpeech(request, abort.signal)).blob());
        const url = URL.createObjectURL(blob);
        const take = { blob, url, seconds: await this.length(url), ending: this.format, seed };
        this.dropTake(row);
        if (again) row.take = take;
        else this.setTake(row, take);
        row.state = row.text === text ? "made" : "changed";
        this.$emit("made", row.seconds);
      } catch (error) {
        row.state = again ? "made" : row.url ? "changed" : "new";
        if (abort.signal.aborted) return;
        row.error = [error.message, error.hint].filter(Boolean).join(". ");
        if (!again) row.state = "failed";
      }
    },
    setTake(row, take) {
      if (row.url) URL.revokeObjectURL(row.url);
      Object.assign(row, take);
    },
    useTake(row) {
      this.setTake(row, row.take);
      row.take = null;
    },
    dropTake(row) {
      if (row.take) URL.revokeObjectURL(row.take.url);
      row.take = null;
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
    async hear(row) {
      if (row.state !== "made" && this.playing !== row.key) await this.make(row);
      if (row.url && row.state === "made") this.play(row.key, row.url);
    },
    play(key, url) {
      const audio = this.$refs.audio;
      if (this.playing === key) return audio.pause();
      window.dispatchEvent(new CustomEvent("anyrig-sound", { detail: "lines" }));
      audio.src = url;
      audio.play().then(() => (this.playing = key), () => {});
    },
    // The number keeps the order, the text tells the files apart.
    name(row, number) {
      const words = row.text.normalize().replace(/[\x00-\x1f<>:"/\\|?*.]+/g, " ").replace(/\s+/g, " ").trim();
      const short = words.length > MAX_NAME ? words.slice(0, MAX_NAME + 1).replace(/\s+\S*$/, "").slice(0, MAX_NAME) : words;
      return [String(number + 1).padStart(3, "0"), short].filter(Boolean).join(" ") + "." + row.ending;
    },
    download(row, number) {
      save(row.blob, this.name(row, number));
    },
    async downloadAll() {
      const made = this.rows.map((row, number) => ({ row, name: row.blob && this.name(row, number) })).filter(({ name }) => name);
      const quote = (text) => '"' + text.replaceAll('"', '""') + '"';
      const voice = (row) => row.voice || [this.request.engine, this.request.voice].join("/");
      const table = [["file", "voice", "text"], ...made.map(({ row, name }) => [name, voice(row), row.text])];
      const text = "\ufeff" + table.map((cells) => cells.map(quote).join(",") + "\r\n").join(""); // Excel needs the mark
      const files = made.map(({ row, name }) => ({ name, blob: row.blob }));
      save(await zip([...files, { name: "lines.csv", blob: new Blob([text]) }]), "lines.zip");
    },
    queue() {
      const lines = this.rows.map((row) => ({ text: row.text.replace(/\s+/g, " ").trim(), voice: row.voice, seed: row.seed }));
      this.$emit("queued", { lines: lines.filter((one) => one.text), format: this.format });
    },
    label(key, number) {
      return this.texts[key].replace("{number}", number + 1);
    },
    formatLength(seconds) {
      const digits = { minimumFractionDigits: 1, maximumFractionDigits: 1 };
      return seconds.toLocaleString(document.documentElement.lang, digits) + "\u00a0s";
    },
    describe(row) {
      const length = row.state === "made" && row.seconds ? " " + this.formatLength(row.seconds) : "";
      return this.texts["state_" + row.state] + length;
    },
    mood(row) {
      return { made: "good", failed: "bad", making: "warn", changed: "warn" }[row.state] || "";
    },
  },
};
