// A labelled form control. It holds its own value: the page around it may be rendered again at any
// time, which must not reset what a person has typed.
let count = 0;
export default {
  template: `
    <div class="field" :class="['field-' + kind, { bare }]">
      <label v-if="kind !== 'check'" :for="name" :class="{ 'only-read': bare }">{{ label }}
        <output v-if="kind === 'range'" class="figures">{{ inner }}{{ unit }}</output></label>
      <textarea v-if="kind === 'area'" :id="name" v-bind="more" v-model="inner" :aria-describedby="hintId"
        @input="handleInput" @change="report" @keydown.ctrl.enter.prevent="submit" @keydown.meta.enter.prevent="submit"></textarea>
      <select v-else-if="kind === 'select'" :id="name" v-bind="more" v-model="inner"
        :aria-describedby="hintId" @change="report">
        <template v-for="group in groups" :key="group.name">
          <optgroup v-if="group.name" :label="group.name">
            <option v-for="one in group.options" :key="one.value" :value="one.value">{{ one.label }}</option>
          </optgroup>
          <option v-else v-for="one in group.options" :key="one.value" :value="one.value">{{ one.label }}</option>
        </template>
      </select>
      <label v-else-if="kind === 'check'" class="check"><input type="checkbox" v-bind="more" :id="name"
        v-model="inner" @change="report" /><span :class="{ 'only-read': bare }">{{ label }}</span></label>
      <input v-else :id="name" :type="kind" v-bind="more" v-model="inner" :aria-describedby="hintId"
        @input="handleInput" @change="report" @keydown.enter="$emit('enter', inner)" />
      <p v-if="counter" class="soft figures">{{ counter.replace("{count}", inner.length.toLocaleString(lang)) }}<span
        v-if="keys" class="keys"> · {{ keys }}</span></p>
      <p v-if="hint" :id="name + '-hint'" class="soft">{{ hint }}</p>
    </div>`,
  props: {
    kind: String, label: String, value: null, options: Array, hint: String, live: Boolean,
    bare: Boolean, unit: String, more: Object, keep: String, counter: String, keys: String,
  },
  emits: ["changed", "enter", "submitted"],
  data() {
    return { inner: this.value, name: "field-" + ++count, timer: null, lang: document.documentElement.lang };
  },
  mounted() {
    const stored = this.keep ? anyrig.load(this.keep) : undefined;
    if (stored === undefined || stored === this.inner) return;
    if (this.kind === "select" && !this.options?.some((one) => one.value === stored)) return;
    this.inner = stored;
    anyrig.whenConnected(() => this.report());
  },
  computed: {
    hintId() {
      return this.hint ? this.name + "-hint" : undefined;
    },
    groups() {
      const groups = [];
      for (const one of this.options || []) {
        const last = groups[groups.length - 1];
        if (last && last.name === one.group) last.options.push(one);
        else groups.push({ name: one.group, options: [one] });
      }
      return groups;
    },
  },
  methods: {
    report() {
      clearTimeout(this.timer);
      if (this.keep) anyrig.store(this.keep, this.inner);
      this.$emit("changed", this.kind === "range" || this.kind === "number" ? Number(this.inner) : this.inner);
    },
    handleInput() {
      if (this.keep) anyrig.store(this.keep, this.inner); // also while the server is not connected
      if (!this.live) return;
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.report(), 250);
    },
    submit() {
      this.report();
      this.$emit("submitted");
    },
    setValue(value) {
      this.inner = value;
      if (this.keep) anyrig.store(this.keep, value);
    },
  },
};
