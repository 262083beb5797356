// One labelled control. It keeps what a person typed itself: the page around it may be drawn anew
// at any time, and must not take the text away.
let _number = 0;
export default {
  template: `
    <div class="field" :class="['field-' + kind, { bare }]">
      <label v-if="kind !== 'check'" :for="name" :class="{ 'only-read': bare }">{{ label }}
        <output v-if="kind === 'range'" class="figures">{{ inner }}{{ unit }}</output></label>
      <textarea v-if="kind === 'area'" :id="name" v-bind="more" v-model="inner" :aria-describedby="told"
        @input="typed" @change="said"></textarea>
      <select v-else-if="kind === 'select'" :id="name" v-bind="more" v-model="inner"
        :aria-describedby="told" @change="said">
        <template v-for="group in groups" :key="group.name">
          <optgroup v-if="group.name" :label="group.name">
            <option v-for="one in group.options" :key="one.value" :value="one.value">{{ one.label }}</option>
          </optgroup>
          <option v-else v-for="one in group.options" :key="one.value" :value="one.value">{{ one.label }}</option>
        </template>
      </select>
      <label v-else-if="kind === 'check'" class="check"><input type="checkbox" v-bind="more" :id="name"
        v-model="inner" @change="said" /><span :class="{ 'only-read': bare }">{{ label }}</span></label>
      <input v-else :id="name" :type="kind" v-bind="more" v-model="inner" :aria-describedby="told"
        @input="typed" @change="said" @keydown.enter="$emit('enter', inner)" />
      <p v-if="hint" :id="name + '-hint'" class="soft">{{ hint }}</p>
    </div>`,
  props: {
    kind: String, label: String, value: null, options: Array, hint: String, live: Boolean,
    bare: Boolean, unit: String, more: Object, keep: String,
  },
  emits: ["said", "enter"],
  data() {
    return { inner: this.value, name: "field-" + ++_number, timer: null };
  },
  mounted() {
    const kept = this.keep ? anyrig.kept(this.keep) : undefined;
    if (kept === undefined || kept === this.inner) return;
    if (this.kind === "select" && !this.options.some((one) => one.value === kept)) return;
    this.inner = kept;
    anyrig.whenConnected(() => this.said());
  },
  computed: {
    told() {
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
    said() {
      clearTimeout(this.timer);
      if (this.keep) anyrig.keep(this.keep, this.inner);
      this.$emit("said", this.kind === "range" || this.kind === "number" ? Number(this.inner) : this.inner);
    },
    typed() {
      if (this.keep) anyrig.keep(this.keep, this.inner); // also where nobody hears of it
      if (!this.live) return;
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.said(), 250);
    },
    put(value) {
      this.inner = value;
    },
  },
};
