// Plays speech while it is synthesized: samples are queued in WebAudio and drawn as they arrive. When
// all are there, they can be played from any position and downloaded.
import { Peaks, RATE, requestSpeech, formatTime, pcmChunks, save, createUnreachableError, wav } from "/page/assets/sound.js";

export default {
  template: `
    <div class="player" :data-state="state" :data-samples="count" :data-peak="peak.toFixed(4)"
      :data-seconds="seconds.toFixed(3)" :data-played="played.toFixed(3)" :data-first-ms="first" :data-pieces="numChunks">
      <div class="wave" ref="wave" :role="ready ? 'slider' : 'img'" :tabindex="ready ? 0 : undefined"
        :aria-label="ready ? texts.seek : texts.wave" :aria-valuemin="ready ? 0 : undefined"
        :aria-valuemax="ready ? Math.round(seconds) : undefined" :aria-valuenow="ready ? Math.round(position) : undefined"
        :aria-valuetext="ready ? clock : undefined" @click="handleClick" @keydown="handleKey">
        <canvas ref="canvas" aria-hidden="true"></canvas>
        <p v-if="state === 'empty'" class="soft">{{ texts.empty }}</p>
      </div>
      <div class="row ends">
        <div class="row">
          <button v-if="!active" type="button" class="button plain" :disabled="!ready" id="play" @click="play">
            <span class="icon" v-html="icons.play"></span><span>{{ texts.play }}</span></button>
          <button v-else type="button" class="button plain" id="stop" @click="stop">
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
      <audio ref="audio" @timeupdate="position = $refs.audio.currentTime" @ended="playing = false" @pause="playing = false"
        @playing="playing = true"></audio>
    </div>`,
  props: { texts: Object, icons: Object, formats: Array },
  emits: ["began", "made", "failed"],
  data() {
    return { state: "empty", count: 0, peak: 0, first: "", numChunks: 0, playing: false, position: 0, played: 0, format: "wav", fetching: false };
  },
  computed: {
    seconds() {
      return this.count / RATE;
    },
    ready() {
      return this.state === "done" || (this.state === "stopped" && this.count > 0);
    },
    active() {
      return this.playing || this.state === "making" || this.state === "waiting";
    },
    clock() {
      return formatTime(this.position) + " / " + formatTime(this.seconds);
    },
    status() {
      if (this.state === "waiting") return this.texts.waiting;
      if (this.state === "making") return this.texts.making + " " + formatTime(this.seconds);
      return this.count ? this.clock : "";
    },
  },
  created() {
    this.chunks = []; // Vue must not observe every sample
    this.peaks = new Peaks();
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
    window.addEventListener("anyrig-theme", this.redraw);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", this.redraw);
  },
  beforeUnmount() {
    this.watcher.disconnect();
    window.removeEventListener("anyrig-theme", this.redraw);
    this.stop();
  },
  watch: {
    position() {
      this.redraw();
    },
  },
  methods: {
    async speak(request) {
      this.stop();
      this.chunks = [];
      this.peaks = new Peaks();
      this.$refs.audio.removeAttribute("src");
      Object.assign(this, { count: 0, peak: 0, position: 0, played: 0, first: "", numChunks: 0, state: "waiting" });
      this.request = request;
      this.draw();
      const abort = (this.abort = new AbortController());
      const context = (this.context = new AudioContext({ sampleRate: RATE }));
      context.resume();
      const startedAt = performance.now();
      try {
        const response = await requestSpeech({ ...request, response_format: "pcm" }, abort.signal);
        let next = 0;
        for await (const chunk of pcmChunks(response)) {
          if (abort.signal.aborted) return;
          if (!this.count) {
            this.first = Math.round(performance.now() - startedAt);
            this.state = "making";
            this.$emit("began", this.first);
          }
          next = this.queue(context, chunk, next);
          this.append(chunk);
        }
        if (abort.signal.aborted) return;
        if (!this.count) return (this.state = "empty");
        this.finish("done");
        this.playing = true;
        this.trackPlayback(context, next);
        this.$emit("made", { seconds: this.seconds, first_ms: this.first });
      } catch (error) {
        if (abort.signal.aborted) return;
        this.closeContext();
        this.state = this.count ? "stopped" : "empty";
        if (this.count) this.finish("stopped");
        const shown = error instanceof TypeError ? createUnreachableError() : error; // the stream broke off
        this.$emit("failed", { title: shown.message, hint: shown.hint || "" });
      }
    },
    queue(context, chunk, next) {
      const buffer = context.createBuffer(1, chunk.length, RATE);
      const samples = buffer.getChannelData(0);
      for (let i = 0; i < chunk.length; i++) samples[i] = chunk[i] / 32768;
      const source = context.createBufferSource();
      source.buffer = buffer;
      source.connect(context.destination);
      const when = Math.max(next, context.currentTime + 0.05);
      source.onended = () => (this.played += buffer.duration);
      source.start(when);
      return when + buffer.duration;
    },
    trackPlayback(context, end) {
      // Queued audio plays on after the last sample has arrived.
      clearInterval(this.timer);
      this.timer = setInterval(() => {
        this.position = Math.max(0, Math.min(this.seconds, this.seconds - (end - context.currentTime)));
        // A moment later, so that the last chunk's `onended` comes before the context is closed.
        if (context.currentTime >= end + 0.3) {
          this.position = this.seconds;
          this.closeContext();
        }
      }, 60);
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
    closeContext() {
      clearInterval(this.timer);
      this.context?.close().catch(() => {});
      this.context = undefined;
      this.playing = false;
    },
    stop() {
      this.abort?.abort(); // the server notices and stops as well
      this.closeContext();
      this.$refs.audio?.pause();
      if (this.state === "making" || this.state === "waiting")
        this.count ? this.finish("stopped") : (this.state = "empty");
    },
    async play() {
      const audio = this.$refs.audio;
      if (this.position >= this.seconds - 0.05) audio.currentTime = 0;
      await audio.play();
    },
    handleClick(event) {
      if (!this.ready) return;
      const box = this.$refs.wave.getBoundingClientRect();
      this.seek((this.seconds * (event.clientX - box.left)) / box.width);
    },
    handleKey(event) {
      const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: 10, PageDown: -10 }[event.key];
      if (!this.ready || (step === undefined && !["Home", "End", " "].includes(event.key))) return;
      event.preventDefault();
      if (event.key === " ") return this.playing ? this.stop() : this.play();
      this.seek(event.key === "Home" ? 0 : event.key === "End" ? this.seconds : this.position + step);
    },
    seek(position) {
      this.closeContext();
      this.position = Math.max(0, Math.min(this.seconds, position));
      this.$refs.audio.currentTime = this.position;
    },
    async download() {
      if (this.format === "wav") return save(this.blob, "speech.wav");
      this.fetching = true;
      try {
        const response = await requestSpeech({ ...this.request, response_format: this.format });
        save(await response.blob(), "speech." + this.format);
      } catch (error) {
        this.$emit("failed", { title: error.message, hint: error.hint || "" });
      }
      this.fetching = false;
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
      const span = Math.max(peaks.count, 100); // do not stretch the first second over the whole width
      const played = this.state === "making" ? 1 : this.seconds ? this.position / this.seconds : 0;
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
