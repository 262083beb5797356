// Files from a person: a real file input behind a real label, and the same area takes drops.
const MOST_FILES = 1000;
let _number = 0;
export default {
  template: `
    <div class="drop" :class="{ over }" @dragover.prevent="over = true" @dragleave="over = false"
      @drop.prevent="dropped">
      <input :id="name" type="file" :multiple="many" :accept="accept || undefined" class="only-read"
        :aria-describedby="what ? name + '-what' : undefined" @change="chosen" />
      <label :for="name"><span class="drop-title">{{ words.what }}<span class="only-read">. </span></span>
        <span class="button plain">{{ words.choose }}</span></label>
      <p v-if="what" :id="name + '-what'" class="soft">{{ what }}</p>
      <ul v-if="files.length" class="drop-files" aria-live="polite">
        <li v-for="file in files" :key="file.key" :class="file.mood">
          <span>{{ file.said }}</span>
          <progress v-if="file.mood === 'sending'" :value="file.share" max="1" :aria-label="file.said"></progress>
          <span v-if="file.hint" class="soft" :lang="file.translated ? undefined : 'en'">{{ file.hint }}</span>
        </li>
      </ul>
    </div>`,
  props: { what: String, accept: String, many: Boolean, words: Object, useless: Array },
  emits: ["files"],
  data() {
    return { name: "drop-" + ++_number, over: false, files: [], key: 0 };
  },
  methods: {
    async dropped(event) {
      this.over = false;
      // Entries must be asked for before the event is over; they alone tell folders from files.
      const items = [...event.dataTransfer.items].filter((item) => item.kind === "file");
      const entries = items.map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
      if (!entries.some((entry) => entry.isDirectory)) return this.send([...event.dataTransfer.files]);
      if (!this.many) return this.refuse(entries.find((entry) => entry.isDirectory).name, this.words.no_folder);
      const files = [];
      for (const entry of entries) await this.walk(entry, files);
      if (!files.length) return this.refuse(entries[0].name, this.words.empty_folder);
      if (files.length > MOST_FILES) return this.refuse(entries[0].name, this.words.large_folder.replace("{count}", files.length));
      this.send(files);
    },
    async walk(entry, files) {
      if (files.length > MOST_FILES || entry.name.startsWith(".")) return;
      if (entry.isFile) {
        await new Promise((resolve) => entry.file((file) => resolve(files.push(file)), resolve));
        return;
      }
      const reader = entry.createReader();
      for (;;) {
        // A reader gives a hundred at a time, and none at the end.
        const some = await new Promise((resolve) => reader.readEntries(resolve, () => resolve([])));
        if (!some.length) return;
        for (const one of some) await this.walk(one, files);
      }
    },
    refuse(name, why) {
      this.files = [...this.files.slice(-4), { key: ++this.key, mood: "failed", said: this.say("failed", { name }), hint: why, translated: true }];
    },
    chosen(event) {
      this.send([...event.target.files]);
      event.target.value = "";
    },
    async send(list) {
      const there = [];
      for (const file of this.many ? list : list.slice(0, 1)) {
        const sent = await this.one(file);
        if (sent) there.push(sent);
      }
      if (there.length) this.$emit("files", there);
    },
    one(file) {
      const row = Vue.reactive({ key: ++this.key, mood: "sending", share: 0, hint: "", said: this.say("sending", file) });
      this.files = [...this.files.slice(-4), row];
      const body = new FormData();
      body.append("files", file, file.name);
      return new Promise((resolve) => {
        const request = new XMLHttpRequest(); // fetch does not tell how much has been sent
        request.open("POST", "/uploads");
        request.responseType = "json";
        request.upload.onprogress = (event) => (row.share = event.loaded / event.total);
        request.onloadend = () => {
          const good = request.status >= 200 && request.status < 300;
          const sent = good && request.response.files[0];
          if (sent && this.useless.includes(sent.kind)) {
            row.mood = "failed";
            row.said = this.say("useless", file);
            // Nobody could do anything with it; it goes before anybody lists what there is.
            return fetch("/uploads/" + sent.id, { method: "DELETE" }).finally(() => resolve(null));
          }
          row.mood = good ? "done" : "failed";
          row.said = this.say(good ? "done" : "failed", file);
          row.hint = good ? "" : [request.response?.title, request.response?.hint].filter(Boolean).join(". ");
          if (!good && !row.hint) {
            // The request never got an answer: the server is gone, or the file cannot be read.
            row.hint = window.socket?.connected === false ? this.words.unreachable : this.words.unreadable;
            row.translated = true;
          }
          resolve(sent || null);
        };
        request.send(body);
      });
    },
    say(key, file) {
      return this.words[key].replace("{name}", file.name);
    },
  },
};
