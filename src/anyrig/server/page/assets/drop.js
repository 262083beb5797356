// Uploads files: inputs for files and folders, in an area that takes dropped ones too.
const MAX_FILES = 1000;
const SHOWN_FILES = 5;
// Of these the server knows the kind, unless they are damaged.
const FORMATS = ["pdf", "epub", "docx", "doc", "odt", "mobi", "azw3", "png", "jpg", "jpeg", "tif", "tiff", "webp"];
let count = 0;
export default {
  template: `
    <div class="drop" :class="{ over }" @dragover.prevent="over = true" @dragleave="over = false"
      @drop.prevent="handleDrop">
      <p class="drop-title">{{ texts.prompt }}</p>
      <div class="row centre">
        <span class="drop-input"><input :id="name" type="file" :multiple="multiple" :accept="accept || undefined"
          class="only-read" :aria-describedby="kinds ? name + '-kinds' : undefined" @change="handleChoice" />
          <label :for="name" class="button plain">{{ texts.choose }}</label></span>
        <span v-if="folders" class="drop-input"><input :id="name + '-folder'" type="file" webkitdirectory multiple
          class="only-read" @change="handleChoice" />
          <label :for="name + '-folder'" class="button plain">{{ texts.choose_folder }}</label></span>
      </div>
      <p v-if="kinds" :id="name + '-kinds'" class="soft">{{ kinds }}</p>
      <div v-if="total > 1" class="drop-total" role="status">
        <span>{{ summary }}</span>
        <progress v-if="done < total" :value="done" :max="total" :aria-label="texts.prompt"></progress>
      </div>
      <ul v-if="files.length" class="drop-files" aria-live="polite">
        <li v-for="file in files" :key="file.key" :class="file.state">
          <span>{{ file.text }}</span>
          <progress v-if="file.state === 'sending'" :value="file.share" max="1" :aria-label="file.text"></progress>
          <span v-if="file.hint" class="soft" :lang="file.translated ? undefined : 'en'">{{ file.hint }}</span>
        </li>
      </ul>
    </div>`,
  props: { kinds: String, accept: String, multiple: Boolean, folders: Boolean, texts: Object, unsupported: Array },
  emits: ["files"],
  data() {
    return { name: "drop-" + ++count, over: false, files: [], key: 0, done: 0, sent: 0, total: 0, refused: [] };
  },
  computed: {
    summary() {
      const sent = this.texts.total.replace("{number}", this.sent).replace("{all}", this.total);
      if (!this.refused.length) return sent;
      const reasons = this.refused.slice(0, SHOWN_FILES).join("; ") + (this.refused.length > SHOWN_FILES ? "; …" : "");
      return sent + this.texts.refused.replace("{count}", this.refused.length).replace("{reasons}", () => reasons);
    },
  },
  unmounted() {
    this.left = true;
    this.request?.abort();
  },
  methods: {
    async handleDrop(event) {
      this.over = false;
      // Entries exist only during the event, and only they tell folders from files.
      const items = [...event.dataTransfer.items].filter((item) => item.kind === "file");
      const entries = items.map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
      const folder = entries.find((entry) => entry.isDirectory);
      if (!folder) return this.send([...event.dataTransfer.files]);
      if (!this.multiple) return this.reject(folder.name, this.texts.no_folder);
      const files = [];
      for (const entry of entries) await this.listFiles(entry, files);
      this.sendFolder(folder.name, files);
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
    handleChoice(event) {
      const files = [...event.target.files];
      const isFolder = event.target.webkitdirectory;
      event.target.value = "";
      if (!isFolder) return this.send(files);
      const isHidden = (file) => file.webkitRelativePath.split("/").some((part) => part.startsWith("."));
      this.sendFolder(files[0]?.webkitRelativePath.split("/")[0] || "", files.filter((file) => !isHidden(file)));
    },
    sendFolder(name, files) {
      if (!files.length) return this.reject(name, this.texts.empty_folder);
      if (files.length > MAX_FILES) return this.reject(name, this.texts.large_folder.replace("{count}", files.length));
      this.send(files);
    },
    reject(name, reason) {
      this.refused.push(name + ": " + reason);
      this.show({ state: "failed", text: this.format("failed", { name }), hint: reason, translated: true });
    },
    show(row) {
      const one = Vue.reactive({ key: ++this.key, share: 0, hint: "", translated: false, ...row });
      // Failures stay in view, however many files follow.
      const failed = this.files.filter((file) => file.state === "failed").slice(-20);
      const others = this.files.filter((file) => file.state !== "failed").slice(1 - SHOWN_FILES);
      this.files = [...this.files.filter((file) => failed.includes(file) || others.includes(file)), one];
      return one;
    },
    async send(list) {
      const files = this.multiple ? list : list.slice(0, 1);
      const uploads = [];
      Object.assign(this, { done: 0, sent: 0, total: files.length, refused: [] });
      for (const file of files) {
        if (this.left) return;
        const sent = await this.upload(file);
        if (sent) uploads.push(sent);
        this.sent = uploads.length;
        this.done += 1;
      }
      if (uploads.length) this.$emit("files", uploads);
    },
    upload(file) {
      const limit = Number(document.getElementById("content")?.dataset.uploadBytes);
      if (limit && file.size > limit) return this.reject(file.name, this.describeLimit(file.size, limit));
      const row = this.show({ state: "sending", text: this.format("sending", file) });
      const body = new FormData();
      body.append("files", file, file.name);
      return new Promise((resolve) => {
        const request = (this.request = new XMLHttpRequest()); // fetch does not report upload progress
        request.open("POST", "/uploads");
        request.responseType = "json";
        request.upload.onprogress = (event) => (row.share = event.loaded / event.total);
        request.onloadend = () => {
          const ok = request.status >= 200 && request.status < 300;
          const sent = ok && request.response.files[0];
          if (sent && this.unsupported.includes(sent.kind)) {
            row.state = "failed";
            row.text = this.describeUnsupported(file);
            this.refused.push(row.text);
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
          if (!ok) this.refused.push(file.name + ": " + row.hint);
          resolve(sent || null);
        };
        request.send(body);
      });
    },
    describeUnsupported(file) {
      const suffix = file.name.split(".").pop().toLowerCase();
      if (!FORMATS.includes(suffix)) return this.format("unsupported", file);
      return this.format("damaged", file).replace("{format}", suffix.toUpperCase());
    },
    describeLimit(size, limit) {
      const megabytes = new Intl.NumberFormat(document.documentElement.lang, { maximumSignificantDigits: 4 });
      return this.texts.too_large.replace("{size}", megabytes.format(size / 1e6)).replace("{limit}", megabytes.format(limit / 1e6));
    },
    format(key, file) {
      return this.texts[key].replace("{name}", file.name);
    },
  },
};
