// Uploads files: a file input with its label, in an area that takes dropped files too.
const MAX_FILES = 1000;
let count = 0;
export default {
  template: `
    <div class="drop" :class="{ over }" @dragover.prevent="over = true" @dragleave="over = false"
      @drop.prevent="handleDrop">
      <input :id="name" type="file" :multiple="multiple" :accept="accept || undefined" class="only-read"
        :aria-describedby="kinds ? name + '-kinds' : undefined" @change="handleChoice" />
      <label :for="name"><span class="drop-title">{{ texts.prompt }}<span class="only-read">. </span></span>
        <span class="button plain">{{ texts.choose }}</span></label>
      <p v-if="kinds" :id="name + '-kinds'" class="soft">{{ kinds }}</p>
      <ul v-if="files.length" class="drop-files" aria-live="polite">
        <li v-for="file in files" :key="file.key" :class="file.state">
          <span>{{ file.text }}</span>
          <progress v-if="file.state === 'sending'" :value="file.share" max="1" :aria-label="file.text"></progress>
          <span v-if="file.hint" class="soft" :lang="file.translated ? undefined : 'en'">{{ file.hint }}</span>
        </li>
      </ul>
    </div>`,
  props: { kinds: String, accept: String, multiple: Boolean, texts: Object, unsupported: Array },
  emits: ["files"],
  data() {
    return { name: "drop-" + ++count, over: false, files: [], key: 0 };
  },
  methods: {
    async handleDrop(event) {
      this.over = false;
      // Entries exist only during the event, and only they tell folders from files.
      const items = [...event.dataTransfer.items].filter((item) => item.kind === "file");
      const entries = items.map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
      if (!entries.some((entry) => entry.isDirectory)) return this.send([...event.dataTransfer.files]);
      if (!this.multiple) return this.reject(entries.find((entry) => entry.isDirectory).name, this.texts.no_folder);
      const files = [];
      for (const entry of entries) await this.listFiles(entry, files);
      if (!files.length) return this.reject(entries[0].name, this.texts.empty_folder);
      if (files.length > MAX_FILES) return this.reject(entries[0].name, this.texts.large_folder.replace("{count}", files.length));
      this.send(files);
    },
    async listFiles(entry, files) {
      if (files.length > MAX_FILES || entry.name.startsWith(".")) return;
      if (entry.isFile) {
        await new Promise((resolve) => entry.file((file) => resolve(files.push(file)), resolve));
        return;
      }
      const reader = entry.createReader();
      for (;;) {
        // It returns up to a hundred at a time, and none at the end.
        const some = await new Promise((resolve) => reader.readEntries(resolve, () => resolve([])));
        if (!some.length) return;
        for (const one of some) await this.listFiles(one, files);
      }
    },
    reject(name, reason) {
      this.files = [...this.files.slice(-4), { key: ++this.key, state: "failed", text: this.format("failed", { name }), hint: reason, translated: true }];
    },
    handleChoice(event) {
      this.send([...event.target.files]);
      event.target.value = "";
    },
    async send(list) {
      const uploads = [];
      for (const file of this.multiple ? list : list.slice(0, 1)) {
        const sent = await this.upload(file);
        if (sent) uploads.push(sent);
      }
      if (uploads.length) this.$emit("files", uploads);
    },
    upload(file) {
      const row = Vue.reactive({ key: ++this.key, state: "sending", share: 0, hint: "", text: this.format("sending", file) });
      this.files = [...this.files.slice(-4), row];
      const body = new FormData();
      body.append("files", file, file.name);
      return new Promise((resolve) => {
        const request = new XMLHttpRequest(); // fetch does not report upload progress
        request.open("POST", "/uploads");
        request.responseType = "json";
        request.upload.onprogress = (event) => (row.share = event.loaded / event.total);
        request.onloadend = () => {
          const ok = request.status >= 200 && request.status < 300;
          const sent = ok && request.response.files[0];
          if (sent && this.unsupported.includes(sent.kind)) {
            row.state = "failed";
            row.text = this.format("unsupported", file);
            // Delete it before any list of the uploads shows it.
            return fetch("/uploads/" + sent.id, { method: "DELETE" }).finally(() => resolve(null));
          }
          row.state = ok ? "done" : "failed";
          row.text = this.format(ok ? "done" : "failed", file);
          row.hint = ok ? "" : [request.response?.title, request.response?.hint].filter(Boolean).join(". ");
          if (!ok && !row.hint) {
            // No response: the server is not running, or the browser cannot read the file.
            row.hint = window.socket?.connected === false ? this.texts.unreachable : this.texts.unreadable;
            row.translated = true;
          }
          resolve(sent || null);
        };
        request.send(body);
      });
    },
    format(key, file) {
      return this.texts[key].replace("{name}", file.name);
    },
  },
};
