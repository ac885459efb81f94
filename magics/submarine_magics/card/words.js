// Numbers, times and foreign text as words: as `submarine_engine.amounts` and `card.words` in Python.

const UNITS = ["bytes", "kB", "MB", "GB", "TB"];

// Unicode's control, format, surrogate, separator and private characters would reorder, hide or
// break the text around them; the two joiners spell words in Persian and Indic scripts.
const UNSEEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Co}]/gu;
const JOINERS = "\u200c\u200d";

// A length of time that still runs, in whole seconds: `38 s`, `3 min 05 s`, `2 h 07 min`, `4 d 1 h`.
export function clock(seconds) {
  if (!Number.isFinite(seconds)) return "—";
  const whole = Math.max(0, Math.floor(seconds));
  const [minutes, hours, days] = [60, 3600, 86400].map((unit) => Math.floor(whole / unit));
  const two = (number) => String(number).padStart(2, "0");
  if (days) return `${days} d ${hours % 24} h`;
  if (hours) return `${hours} h ${two(minutes % 60)} min`;
  return minutes ? `${minutes} min ${two(whole % 60)} s` : `${whole} s`;
}

// A length of time that is over: `38 ms`, `4.2 s`, `3 min 05 s`.
export function duration(seconds) {
  if (seconds < 0.9995) return `${(Math.max(0, seconds) * 1000).toFixed(0)} ms`;
  return seconds < 9.95 ? `${seconds.toFixed(1)} s` : clock(seconds + 0.5);
}

// `843 bytes`, `1.2 MB`, `12 MB`.
export function size(bytes) {
  let at = 0;
  while (bytes >= 1000 && at < UNITS.length - 1) [bytes, at] = [bytes / 1000, at + 1];
  return `${bytes.toFixed(at && bytes < 9.95 ? 1 : 0)} ${UNITS[at]}`;
}

// `72 %`; never 100 % before the end.
export function percent(fraction) {
  return `${Math.floor(fraction * 100 + 1e-9)} %`;
}

// Text whose unseen characters are seen, but for those of `kept`.
export function seen(text, kept = "") {
  return text.replace(UNSEEN, (char) => {
    const code = char.codePointAt(0);
    if (JOINERS.includes(char) || kept.includes(char)) return char;
    if (code < 0x20) return String.fromCharCode(0x2400 + code);
    return code === 0x7f ? "\u2421" : `[U+${code.toString(16).toUpperCase().padStart(4, "0")}]`;
  });
}
