// Audio in the browser: a stream of samples, a WAV file of them, several files as one ZIP.
export const RATE = 24000; // of `pcm`: 16 bits, little endian, one channel

export class RequestError extends Error {
  constructor(title, hint, lang = "") {
    super(title);
    Object.assign(this, { hint, lang });
  }
}

// By the page itself: the server may be gone.
export function showError(error) {
  const shown = error instanceof TypeError ? createUnreachableError() : error; // the stream broke off
  anyrig.toast(shown.message, "bad", shown.hint || "", shown.lang ?? "en");
}

// No response, or one that broke off, in the page's language.
function createUnreachableError() {
  const texts = document.getElementById("toasts")?.dataset || {};
  return new RequestError(texts.unreachable || "The server is not responding", texts.unreachableHint || "");
}

export async function requestSpeech(request, signal) {
  let response;
  try {
    response = await fetch("/v1/audio/speech", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(request),
      signal,
    });
  } catch (error) {
    throw signal?.aborted ? error : createUnreachableError();
  }
  if (response.ok) return response;
  const problem = await response.json().catch(() => ({}));
  throw new RequestError(problem.title || response.status + " " + response.statusText, problem.hint || "", "en");
}

// The chunks of a `pcm` response, as whole samples of 16 bits. Yields to the browser regularly while
// chunks are already there.
export async function* pcmChunks(response) {
  const reader = response.body.getReader();
  let rest = new Uint8Array(0); // a chunk may end in the middle of a sample
  let since = performance.now();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const bytes = new Uint8Array(rest.length + value.length);
      bytes.set(rest);
      bytes.set(value, rest.length);
      const whole = bytes.length - (bytes.length % 2);
      rest = bytes.slice(whole);
      // Every browser runs on little endian machines, as the samples are.
      for (let at = 0; at < whole; at += MAX_BYTES) yield new Int16Array(bytes.buffer, at, Math.min(MAX_BYTES, whole - at) / 2);
      if (performance.now() - since > 10) {
        await new Promise((resume) => setTimeout(resume));
        since = performance.now();
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}
const MAX_BYTES = 1 << 18;

// The loudest sample of each span, for drawing. Spans get longer with the audio, so that memory and
// the cost of drawing stay the same. A plain object, since it is used for every sample.
export class Peaks {
  constructor() {
    this.values = new Float32Array(4096);
    this.count = 0;
    this.max = 0;
    this.span = RATE / 50;
    this.filled = 0;
  }

  add(chunk) {
    let { count, filled, span } = this;
    for (let i = 0; i < chunk.length; i++) {
      if (filled === 0) {
        if (count === this.values.length) {
          for (let k = 0; 2 * k < count; k++) this.values[k] = Math.max(this.values[2 * k], this.values[2 * k + 1]);
          count /= 2;
          span *= 2;
        }
        this.values[count++] = 0;
      }
      const size = Math.abs(chunk[i]) / 32768;
      if (size > this.values[count - 1]) this.values[count - 1] = size;
      if (size > this.max) this.max = size;
      filled = filled + 1 === span ? 0 : filled + 1;
    }
    Object.assign(this, { count, filled, span });
  }

  loudest(from, to) {
    let peak = 0;
    for (let i = from; i < to && i < this.count; i++) peak = Math.max(peak, this.values[i]);
    return peak;
  }
}

export function wav(chunks) {
  const bytes = chunks.reduce((sum, chunk) => sum + chunk.byteLength, 0);
  const view = new DataView(new ArrayBuffer(44));
  const word = (at, text) => [...text].forEach((c, i) => view.setUint8(at + i, c.charCodeAt(0)));
  word(0, "RIFF");
  view.setUint32(4, 36 + bytes, true);
  word(8, "WAVEfmt ");
  view.setUint32(16, 16, true);
  view.setUint16(20, 1, true);
  view.setUint16(22, 1, true);
  view.setUint32(24, RATE, true);
  view.setUint32(28, 2 * RATE, true);
  view.setUint16(32, 2, true);
  view.setUint16(34, 16, true);
  word(36, "data");
  view.setUint32(40, bytes, true);
  return new Blob([view.buffer, ...chunks], { type: "audio/wav" });
}

export function save(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

export function formatTime(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  const [hours, minutes] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60];
  const parts = hours ? [hours, String(minutes).padStart(2, "0")] : [minutes];
  return [...parts, String(whole % 60).padStart(2, "0")].join(":");
}

const table = Array.from({ length: 256 }, (_, n) => {
  for (let k = 0; k < 8; k++) n = n & 1 ? 0xedb88320 ^ (n >>> 1) : n >>> 1;
  return n >>> 0;
});

function crc(bytes) {
  let sum = 0xffffffff;
  for (const byte of bytes) sum = table[(sum ^ byte) & 255] ^ (sum >>> 8);
  return (sum ^ 0xffffffff) >>> 0;
}

// Stored without compression, which does not make audio smaller.
export async function zip(files) {
  const parts = [];
  const list = [];
  let at = 0;
  for (const { name, blob } of files) {
    const bytes = new Uint8Array(await blob.arrayBuffer());
    const title = new TextEncoder().encode(name);
    const head = new DataView(new ArrayBuffer(26));
    [20, 0x800, 0, 0, 0x21].forEach((value, i) => head.setUint16(2 * i, value, true)); // 0x800: UTF-8
    head.setUint32(10, crc(bytes), true);
    head.setUint32(14, bytes.length, true);
    head.setUint32(18, bytes.length, true);
    head.setUint16(22, title.length, true);
    const local = new Uint8Array([0x50, 0x4b, 3, 4]);
    const entry = new DataView(new ArrayBuffer(46));
    entry.setUint32(0, 0x02014b50, true);
    entry.setUint16(4, 20, true);
    new Uint8Array(entry.buffer).set(new Uint8Array(head.buffer), 6);
    entry.setUint32(42, at, true);
    list.push(entry.buffer, title);
    parts.push(local, head.buffer, title, bytes);
    at += 30 + title.length + bytes.length;
  }
  const size = list.reduce((sum, one) => sum + one.byteLength, 0);
  const end = new DataView(new ArrayBuffer(22));
  end.setUint32(0, 0x06054b50, true);
  end.setUint16(8, files.length, true);
  end.setUint16(10, files.length, true);
  end.setUint32(12, size, true);
  end.setUint32(16, at, true);
  return new Blob([...parts, ...list, end.buffer], { type: "application/zip" });
}
