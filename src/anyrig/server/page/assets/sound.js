// Sound in the browser: a stream of samples as it comes, a WAV of it, many files as one ZIP.
export const RATE = 24000; // of `pcm`: 16 bits, little endian, one channel

export class Refused extends Error {
  constructor(title, hint) {
    super(title);
    this.hint = hint;
  }
}

export async function ask(request, signal) {
  const answer = await fetch("/v1/audio/speech", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(request),
    signal,
  });
  if (answer.ok) return answer;
  const told = await answer.json().catch(() => ({}));
  throw new Refused(told.title || answer.status + " " + answer.statusText, told.hint || "");
}

// Samples between -1 and 1, piece by piece, as the server makes them.
export async function* samples(answer) {
  const reader = answer.body.getReader();
  let odd = new Uint8Array(0); // a piece may end in the middle of a sample
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const bytes = new Uint8Array(odd.length + value.length);
      bytes.set(odd);
      bytes.set(value, odd.length);
      const whole = bytes.length - (bytes.length % 2);
      odd = bytes.slice(whole);
      const view = new DataView(bytes.buffer, 0, whole);
      const piece = new Float32Array(whole / 2);
      for (let i = 0; i < piece.length; i++) piece[i] = view.getInt16(2 * i, true) / 32768;
      if (piece.length) yield piece;
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

export function wav(pieces) {
  const count = pieces.reduce((sum, piece) => sum + piece.length, 0);
  const view = new DataView(new ArrayBuffer(44 + 2 * count));
  const word = (at, text) => [...text].forEach((c, i) => view.setUint8(at + i, c.charCodeAt(0)));
  word(0, "RIFF");
  view.setUint32(4, 36 + 2 * count, true);
  word(8, "WAVEfmt ");
  view.setUint32(16, 16, true);
  view.setUint16(20, 1, true);
  view.setUint16(22, 1, true);
  view.setUint32(24, RATE, true);
  view.setUint32(28, 2 * RATE, true);
  view.setUint16(32, 2, true);
  view.setUint16(34, 16, true);
  word(36, "data");
  view.setUint32(40, 2 * count, true);
  let at = 44;
  for (const piece of pieces)
    for (const value of piece) {
      view.setInt16(at, Math.max(-1, Math.min(1, value)) * 32767, true);
      at += 2;
    }
  return new Blob([view.buffer], { type: "audio/wav" });
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

export function minutes(seconds) {
  const whole = Math.floor(seconds);
  return Math.floor(whole / 60) + ":" + String(whole % 60).padStart(2, "0");
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

// Files as they are, one after the other: sound does not get smaller by packing.
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
