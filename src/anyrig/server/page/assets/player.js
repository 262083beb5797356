// Plays speech while it is synthesized: samples are queued in WebAudio and drawn as they arrive, and can
// be paused and played from any position meanwhile. When all are there, an audio element takes over.
import { Peaks, RATE, formatTime, pcmChunks, requestSpeech, save, showError, wav } from "/page/assets/sound.js";

const AHEAD_S = 10; // that are queued in WebAudio: more would cost memory, and time at every seek
const LATENCY_S = 0.05;
const HISTORY = "speak.history";
const MAX_CLIPS = 20;
const MAX_STORED_CHARACTERS = 20000;
const MIN_SPANS = 100; // of the drawing: the first second is not stretched over the whole width
export default {
  template: `
    <div class="player" :data-state="state" :data-samples="count" :data-peak="peak.toFixed(4)" :data-playing="playing"
      :data-seconds="seconds.toFixed(3)" :data-played="played.toFixed(3)" :data-position="position.toFixed(3)"
      :data-first-ms="first" :data-pieces="numChunks">
      <div class="wave" ref="wave" :role="count ? 'slider' : 'img'" :tabindex="count ? 0 : undefined"
        :aria-label="count ? texts.seek : texts.wave" :aria-valuemin="count ? 0 : undefined"
        :aria-valuemax="count ? Math.round(seconds) : undefined" :aria-valuenow="count ? Math.round(position) : undefined"
        :aria-valuetext="count ? clock : undefined" @click="handleClick" @keydown="handleKey">
        <canvas ref="canvas" aria-hidden="true"></canvas>
        <p v-if="state === 'empty'" class="soft">{{ texts.empty }}</p>
      </div>
      <div class="row ends">
        <div class="row">
          <button type="button" class="button plain" :disabled="!count" :id="playing ? 'pause' : 'play'" @click="playing ? pause() : play()">
            <span class="icon" v-html="playing ? icons.pause : icons.play"></span><span>{{ playing ? texts.pause : texts.play }}</span></button>
          <button v-if="generating || playing" type="button" class="button plain" id="stop" @click="stop">
            <span class="icon" v-html="icons.stop"></span><span>{{ texts.stop }}</span></button>
          <span class="soft figures" role="status">{{ status }}</span>
        </div>
        <div class="row">
          <label class="only-read" for="format">{{ texts.format }}</label>
          <select id="format" v-model="format"><option v-for="one in formats" :key="one" :value="one">{{ one.toUpperCase() }}</option></select>
          <button type="button" class="button plain" id="download" :disabled="!ready || fetching" @click="download">
            <span class="icon" v-html="icons.download"></span><span>{{ texts.download }}</span></button>
        </div>
      </div>
      <details v-if="clips.length" class="job-details history">
        <summary>{{ texts.history }} ({{ clips.length }})</summary>
        <ul class="clips">
          <li v-for="clip in clips" :key="clip.at" class="clip">
            <button type="button" class="button quiet" data-do="hear" :aria-label="texts.clip_play + ': ' + clip.text.slice(0, 60)" @click="speak(clip.request, clip.label)">
              <span class="icon" v-html="icons.play"></span></button>
            <p><span class="clip-text">{{ clip.text }}</span><span class="soft figures">{{ clip.label }} · {{ time(clip.seconds) }}</span></p>
            <button type="button" class="button quiet" data-do="reuse" @click="$emit('reused', clip.text)">{{ texts.clip_reuse }}</button>
            <button type="button" class="button quiet" data-do="remove" :aria-label="texts.clip_remove + ': ' + clip.text.slice(0, 60)" @click="removeClip(clip)">
              <span class="icon" v-html="icons.bin"></span></button>
          </li>
        </ul>
      </details>
      <audio ref="audio" @timeupdate="position = $event.target.currentTime" @ended="playing = false" @pause="playing = false"
        @playing="playing = true"></audio>
    </div>`,
  props: { texts: Object, icons: Object, formats: Array },
  emits: ["began", "made", "reused"],
  data() {
    return {
      state: "empty", count: 0, peak: 0, first: "", numChunks: 0, playing: false, position: 0, played: 0, format: "wav",
      fetching: false, cut: false, clips: [],
    };
  },
  computed: {
    seconds() {
      return this.count / RATE;
    },
    ready() {
      return this.state === "done" || (this.state === "stopped" && this.count > 0);
    },
    generating() {
      return this.state === "making" || this.state === "waiting";
    },
    clock() {
      return formatTime(this.position) + " / " + formatTime(this.seconds);
    },
    status() {
      if (this.state === "waiting") return this.texts.waiting;
      if (this.state === "making") return this.texts.making + " " + this.clock;
      if (this.cut) return this.clock + " · " + this.texts.cut;
      return this.count ? this.clock : "";
    },
  },
  created() {
    this.chunks = []; // Vue must not observe every sample
    this.peaks = new Peaks();
    const stored = anyrig.load(HISTORY);
    if (Array.isArray(stored)) this.clips = stored;
  },
  mounted() {
    this.watcher = new ResizeObserver(() => this.draw());
    this.watcher.observe(this.$refs.wave);
    this.redraw = () => {
      this.frame ??= requestAnimationFrame(() => {
        this.frame = undefined;
        this.draw();
      });
    };
    this.yield = (event) => event.detail !== "speak" && this.playing && this.pause();
    window.addEventListener("anyrig-theme", this.redraw);
    window.addEventListener("anyrig-sound", this.yield);
    this.scheme = matchMedia("(prefers-color-scheme: dark)");
    this.scheme.addEventListener("change", this.redraw);
  },
  beforeUnmount() {
    this.watcher.disconnect();
    window.removeEventListener("anyrig-theme", this.redraw);
    window.removeEventListener("anyrig-sound", this.yield);
    this.scheme.removeEventListener("change", this.redraw);
    this.stop();
    if (this.url) URL.revokeObjectURL(this.url);
  },
  watch: {
    position() {
      this.redraw();
    },
  },
  methods: {
    time: formatTime,
    // `label` names the voice in the history; what has none is not kept there.
    async speak(request, label = "") {
      this.stop();
      this.chunks = [];
      this.peaks = new Peaks();
      this.$refs.audio.removeAttribute("src");
      Object.assign(this, { count: 0, peak: 0, position: 0, played: 0, first: "", numChunks: 0, cut: false, state: "waiting" });
      this.request = request;
      this.draw();
      this.claim();
      const abort = (this.abort = new AbortController());
      this.openLive();
      const startedAt = performance.now();
      try {
        const response = await requestSpeech({ ...request, response_format: "pcm" }, abort.signal);
        for await (const chunk of pcmChunks(response)) {
          if (abort.signal.aborted) return;
          if (!this.count) {
            this.first = Math.round(performance.now() - startedAt);
            this.state = "making";
            this.playing = true;
            this.$emit("began", this.first);
          }
          this.append(chunk);
          this.pump();
        }
        if (abort.signal.aborted) return;
        if (!this.count) return (this.state = "empty");
        this.finish("done");
        if (label) this.addClip(label);
        this.$emit("made", { seconds: this.seconds, first_ms: this.first });
        if (!this.playing) this.useFile(); // paused meanwhile
      } catch (error) {
        if (abort.signal.aborted) return;
        this.cut = this.count > 0;
        this.count ? this.finish("stopped") : (this.state = "empty");
        this.count ? this.useFile() : this.closeLive();
        showError(error);
      }
    },
    claim() {
      window.dispatchEvent(new CustomEvent("anyrig-sound", { detail: "speak" })); // whatever else plays is paused
    },

    // -- while it is synthesized: WebAudio

    openLive() {
      const context = new AudioContext({ sampleRate: RATE });
      context.resume();
      // `chunk` and `offset` are the next samples to queue, `position` is theirs in seconds, `end` when
      // those before them have been heard.
      this.live = { context, sources: [], chunk: 0, offset: 0, position: 0, end: 0 };
      this.timer = setInterval(() => this.track(), 60);
    },
    pump() {
      const { live, chunks } = this;
      if (!live) return;
      const { context } = live;
      while (live.chunk < chunks.length && live.end < context.currentTime + AHEAD_S) {
        const chunk = chunks[live.chunk].subarray(live.offset);
        const buffer = context.createBuffer(1, Math.max(1, chunk.length), RATE);
        const samples = buffer.getChannelData(0);
        for (let i = 0; i < chunk.length; i++) samples[i] = chunk[i] / 32768;
        const source = context.createBufferSource();
        source.buffer = buffer;
        source.connect(context.destination);
        const [when, { duration }] = [Math.max(live.end, context.currentTime + LATENCY_S), buffer];
        const queued = { source, when, duration, from: live.position };
        source.onended = () => {
          this.played += duration;
          live.sources.splice(live.sources.indexOf(queued), 1);
        };
        source.start(when);
        live.sources.push(queued);
        Object.assign(live, { chunk: live.chunk + 1, offset: 0, position: live.position + duration, end: when + duration });
      }
    },
    track() {
      const { live } = this;
      if (!live) return;
      this.pump();
      const now = live.context.currentTime;
      const heard = live.sources.find((one) => now < one.when + one.duration);
      this.position = Math.min(this.seconds, heard ? heard.from + Math.max(0, now - heard.when) : live.position);
      // A moment later, so that the last chunk's `onended` comes before the context is closed.
      if (this.ready && live.chunk >= this.chunks.length && now >= live.end + 0.3) {
        this.position = this.seconds;
        this.closeLive();
      }
    },
    seekLive(position) {
      const { live } = this;
      for (const { source } of live.sources) {
        source.onended = null;
        source.stop();
      }
      let [chunk, offset] = [0, Math.round(position * RATE)];
      while (chunk < this.chunks.length && offset >= this.chunks[chunk].length) offset -= this.chunks[chunk++].length;
      Object.assign(live, { sources: [], chunk, offset: chunk < this.chunks.length ? offset : 0, position, end: 0 });
      this.position = position;
      this.pump();
    },
    closeLive() {
      clearInterval(this.timer);
      this.live?.context.close().catch(() => {});
      this.live = undefined;
      this.playing = false;
    },
    // Continue in the audio element, from where it was.
    useFile() {
      const { position } = this;
      this.closeLive();
      this.$refs.audio.currentTime = position;
      this.position = position;
    },
    append(chunk) {
      this.numChunks = this.chunks.push(chunk);
      this.count += chunk.length;
      this.peaks.add(chunk);
      this.peak = this.peaks.max;
      this.redraw();
    },
    finish(state) {
      this.blob = wav(this.chunks);
      if (this.url) URL.revokeObjectURL(this.url);
      this.url = URL.createObjectURL(this.blob);
      this.$refs.audio.src = this.url;
      this.state = state;
    },

    // -- controls

    stop() {
      this.abort?.abort(); // the server notices and stops as well
      this.closeLive();
      this.$refs.audio?.pause();
      if (this.generating) this.count ? this.finish("stopped") : (this.state = "empty");
      this.position = 0;
      if (this.ready) this.$refs.audio.currentTime = 0;
    },
    pause() {
      if (!this.live) return this.$refs.audio.pause();
      if (this.ready) return this.useFile();
      this.live.context.suspend();
      this.playing = false;
    },
    async play() {
      this.claim();
      if (this.live) {
        this.playing = true;
        return this.live.context.resume();
      }
      const audio = this.$refs.audio;
      if (this.position >= this.seconds - 0.05) audio.currentTime = 0;
      await audio.play();
    },
    handleClick(event) {
      if (!this.count) return;
      const box = this.$refs.wave.getBoundingClientRect();
      const width = box.width * Math.min(1, this.peaks.count / MIN_SPANS);
      this.seek((this.seconds * (event.clientX - box.left)) / width);
    },
    handleKey(event) {
      const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: 10, PageDown: -10 }[event.key];
      if (!this.count || (step === undefined && !["Home", "End", " "].includes(event.key))) return;
      event.preventDefault();
      if (event.key === " ") return this.playing ? this.pause() : this.play();
      this.seek(event.key === "Home" ? 0 : event.key === "End" ? this.seconds : this.position + step);
    },
    seek(position) {
      position = Math.max(0, Math.min(this.seconds, position));
      if (this.live && !this.ready) return this.seekLive(position);
      const { playing } = this;
      this.position = position;
      if (this.live) this.useFile();
      this.$refs.audio.currentTime = position;
      if (playing) this.$refs.audio.play();
    },
    async download() {
      if (this.format === "wav") return save(this.blob, "speech.wav");
      this.fetching = true;
      try {
        const response = await requestSpeech({ ...this.request, response_format: this.format });
        save(await response.blob(), "speech." + this.format);
      } catch (error) {
        showError(error);
      }
      this.fetching = false;
    },

    // -- history: requests, whose audio is in the cache of the server

    addClip(label) {
      const key = JSON.stringify(this.request);
      const clip = { text: this.request.input, label, seconds: this.seconds, at: Date.now(), request: this.request };
      this.clips = [clip, ...this.clips.filter((one) => JSON.stringify(one.request) !== key)].slice(0, MAX_CLIPS);
      this.storeClips();
    },
    removeClip(clip) {
      this.clips = this.clips.filter((one) => one !== clip);
      this.storeClips();
    },
    storeClips() {
      anyrig.store(HISTORY, this.clips.filter((one) => one.text.length <= MAX_STORED_CHARACTERS));
    },
    draw() {
      const canvas = this.$refs.canvas;
      if (!canvas) return;
      const box = this.$refs.wave.getBoundingClientRect();
      const scale = window.devicePixelRatio || 1;
      canvas.width = box.width * scale;
      canvas.height = box.height * scale;
      const context2d = canvas.getContext("2d");
      const style = getComputedStyle(this.$refs.wave);
      const [accent, rest] = [style.getPropertyValue("--accent"), style.getPropertyValue("--edge")];
      const bars = Math.floor(box.width / 4);
      const { peaks } = this;
      if (!peaks.count || bars < 1) return;
      const span = Math.max(peaks.count, MIN_SPANS);
      const played = this.seconds ? this.position / this.seconds : 0;
      for (let i = 0; i < bars; i++) {
        const from = Math.floor((i * span) / bars);
        const to = Math.max(from + 1, Math.floor(((i + 1) * span) / bars));
        if (from >= peaks.count) break;
        const size = peaks.loudest(from, to) / Math.max(peaks.max, 0.05);
        const height = Math.max(2, size * (box.height - 16));
        context2d.fillStyle = (i * span) / bars / peaks.count < played ? accent : rest;
        context2d.beginPath();
        context2d.roundRect(4 * i * scale, ((box.height - height) / 2) * scale, 2.4 * scale, height * scale, 1.2 * scale);
        context2d.fill();
      }
    },
  },
};
