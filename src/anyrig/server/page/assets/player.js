// Speech that is heard while it is made: samples are queued in WebAudio as they come, and drawn.
// Once all of it is there, it can be played again from any place, and kept.
import { Peaks, RATE, ask, minutes, pcmChunks, save, unreachable, wav } from "/page/assets/sound.js";

export default {
  template: `
    <div class="player" :data-state="state" :data-samples="count" :data-peak="peak.toFixed(4)"
      :data-seconds="seconds.toFixed(3)" :data-played="played.toFixed(3)" :data-first-ms="first" :data-pieces="heard">
      <div class="wave" ref="wave" :role="ready ? 'slider' : 'img'" :tabindex="ready ? 0 : undefined"
        :aria-label="ready ? words.seek : words.wave" :aria-valuemin="ready ? 0 : undefined"
        :aria-valuemax="ready ? Math.round(seconds) : undefined" :aria-valuenow="ready ? Math.round(at) : undefined"
        :aria-valuetext="ready ? clock : undefined" @click="point" @keydown="key">
        <canvas ref="canvas" aria-hidden="true"></canvas>
        <p v-if="state === 'empty'" class="soft">{{ words.empty }}</p>
      </div>
      <div class="row ends">
        <div class="row">
          <button v-if="!sounding" type="button" class="button plain" :disabled="!ready" id="play" @click="play">
            <span class="icon" v-html="icons.play"></span><span>{{ words.play }}</span></button>
          <button v-else type="button" class="button plain" id="stop" @click="stop">
            <span class="icon" v-html="icons.stop"></span><span>{{ words.stop }}</span></button>
          <span class="soft figures" role="status">{{ said }}</span>
        </div>
        <div class="row">
          <label class="only-read" for="format">{{ words.format }}</label>
          <select id="format" v-model="format"><option v-for="one in formats" :key="one" :value="one">{{ one.toUpperCase() }}</option></select>
          <button type="button" class="button plain" id="download" :disabled="!ready || fetching" @click="download">
            <span class="icon" v-html="icons.download"></span><span>{{ words.download }}</span></button>
        </div>
      </div>
      <audio ref="audio" @timeupdate="at = $refs.audio.currentTime" @ended="playing = false" @pause="playing = false"
        @playing="playing = true"></audio>
    </div>`,
  props: { words: Object, icons: Object, formats: Array },
  emits: ["began", "made", "failed"],
  data() {
    return { state: "empty", count: 0, peak: 0, first: "", heard: 0, playing: false, at: 0, played: 0, format: "wav", fetching: false };
  },
  computed: {
    seconds() {
      return this.count / RATE;
    },
    ready() {
      return this.state === "done" || (this.state === "stopped" && this.count > 0);
    },
    sounding() {
      return this.playing || this.state === "making" || this.state === "waiting";
    },
    clock() {
      return minutes(this.at) + " / " + minutes(this.seconds);
    },
    said() {
      if (this.state === "waiting") return this.words.waiting;
      if (this.state === "making") return this.words.making + " " + minutes(this.seconds);
      return this.count ? this.clock : "";
    },
  },
  created() {
    this.chunks = []; // samples are many: Vue must not watch them
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
    at() {
      this.redraw();
    },
  },
  methods: {
    async speak(request) {
      this.stop();
      this.chunks = [];
      this.peaks = new Peaks();
      this.$refs.audio.removeAttribute("src");
      Object.assign(this, { count: 0, peak: 0, at: 0, played: 0, first: "", heard: 0, state: "waiting" });
      this.request = request;
      this.draw();
      const stopper = (this.stopper = new AbortController());
      const context = (this.context = new AudioContext({ sampleRate: RATE }));
      context.resume();
      const asked = performance.now();
      try {
        const answer = await ask({ ...request, response_format: "pcm" }, stopper.signal);
        let next = 0;
        for await (const chunk of pcmChunks(answer)) {
          if (stopper.signal.aborted) return;
          if (!this.count) {
            this.first = Math.round(performance.now() - asked);
            this.state = "making";
            this.$emit("began", this.first);
          }
          next = this.queue(context, chunk, next);
          this.take(chunk);
        }
        if (stopper.signal.aborted) return;
        if (!this.count) return (this.state = "empty");
        this.keep("done");
        this.playing = true;
        this.follow(context, next);
        this.$emit("made", { seconds: this.seconds, first_ms: this.first });
      } catch (error) {
        if (stopper.signal.aborted) return;
        this.end();
        this.state = this.count ? "stopped" : "empty";
        if (this.count) this.keep("stopped");
        const shown = error instanceof TypeError ? unreachable() : error; // the stream broke off
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
    follow(context, end) {
      // What is queued plays on after the last sample has come.
      clearInterval(this.timer);
      this.timer = setInterval(() => {
        this.at = Math.max(0, Math.min(this.seconds, this.seconds - (end - context.currentTime)));
        // A moment later, so that the last piece is told to have ended before its context goes.
        if (context.currentTime >= end + 0.3) {
          this.at = this.seconds;
          this.end();
        }
      }, 60);
    },
    take(chunk) {
      this.heard = this.chunks.push(chunk);
      this.count += chunk.length;
      this.peaks.add(chunk);
      this.peak = this.peaks.max;
      this.redraw();
    },
    keep(state) {
      this.blob = wav(this.chunks);
      if (this.url) URL.revokeObjectURL(this.url);
      this.url = URL.createObjectURL(this.blob);
      this.$refs.audio.src = this.url;
      this.state = state;
    },
    end() {
      clearInterval(this.timer);
      this.context?.close().catch(() => {});
      this.context = undefined;
      this.playing = false;
    },
    stop() {
      this.stopper?.abort(); // the server sees that nobody listens and stops as well
      this.end();
      this.$refs.audio?.pause();
      if (this.state === "making" || this.state === "waiting")
        this.count ? this.keep("stopped") : (this.state = "empty");
    },
    async play() {
      const audio = this.$refs.audio;
      if (this.at >= this.seconds - 0.05) audio.currentTime = 0;
      await audio.play();
    },
    point(event) {
      if (!this.ready) return;
      const box = this.$refs.wave.getBoundingClientRect();
      this.seek((this.seconds * (event.clientX - box.left)) / box.width);
    },
    key(event) {
      const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: 10, PageDown: -10 }[event.key];
      if (!this.ready || (step === undefined && !["Home", "End", " "].includes(event.key))) return;
      event.preventDefault();
      if (event.key === " ") return this.playing ? this.stop() : this.play();
      this.seek(event.key === "Home" ? 0 : event.key === "End" ? this.seconds : this.at + step);
    },
    seek(at) {
      this.end();
      this.at = Math.max(0, Math.min(this.seconds, at));
      this.$refs.audio.currentTime = this.at;
    },
    async download() {
      if (this.format === "wav") return save(this.blob, "speech.wav");
      this.fetching = true;
      try {
        const answer = await ask({ ...this.request, response_format: this.format });
        save(await answer.blob(), "speech." + this.format);
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
      const pen = canvas.getContext("2d");
      const style = getComputedStyle(this.$refs.wave);
      const [accent, rest] = [style.getPropertyValue("--accent"), style.getPropertyValue("--edge")];
      const bars = Math.floor(box.width / 4);
      const { peaks } = this;
      if (!peaks.count || bars < 1) return;
      const many = Math.max(peaks.count, 100); // a short beginning is not stretched over all of it
      const heard = this.state === "making" ? 1 : this.seconds ? this.at / this.seconds : 0;
      for (let i = 0; i < bars; i++) {
        const from = Math.floor((i * many) / bars);
        const to = Math.max(from + 1, Math.floor(((i + 1) * many) / bars));
        if (from >= peaks.count) break;
        const size = peaks.loudest(from, to) / Math.max(peaks.max, 0.05);
        const tall = Math.max(2, size * (box.height - 16));
        pen.fillStyle = (i * many) / bars / peaks.count < heard ? accent : rest;
        pen.beginPath();
        pen.roundRect(4 * i * scale, ((box.height - tall) / 2) * scale, 2.4 * scale, tall * scale, 1.2 * scale);
        pen.fill();
      }
    },
  },
};
