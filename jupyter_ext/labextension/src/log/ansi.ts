/** One line of a log as pieces of plain text with colours; nothing in it can act. */

import { visible as seen } from '../words';

export interface Piece {
  text: string;
  /** Names of CSS classes, such as `c1 bold`. */
  style: string;
}

const ESCAPE = /(\x1b\[[0-9;:?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]{0,4096}(?:\x07|\x1b\\))/;

/** Unseen characters made visible (`␛`, `[U+202E]`); tabs stay. */
export function visible(text: string): string {
  return text
    .split('\t')
    .map(part => seen(part, Infinity))
    .join('\t');
}

/**
 * Cut a line into pieces. Of escape sequences colours and bold are kept, the others are dropped;
 * colours begin anew with each line, since lines are fetched from anywhere.
 */
export function pieces(line: string): Piece[] {
  const found: Piece[] = [];
  let colour = '';
  let bold = false;
  line.split(ESCAPE).forEach((part, at) => {
    if (at % 2 === 0) {
      if (part) {
        found.push({
          text: visible(part),
          style: [colour, bold && 'bold'].filter(Boolean).join(' ')
        });
      }
    } else if (part.startsWith('\x1b[') && part.endsWith('m')) {
      [colour, bold] = painted(part.slice(2, -1), colour, bold);
    }
  });
  return found;
}

function painted(codes: string, colour: string, bold: boolean): [string, boolean] {
  const numbers = codes.split(/[;:]/).map(Number);
  for (let at = 0; at < numbers.length; at++) {
    const code = numbers[at];
    if (code === 0) {
      [colour, bold] = ['', false];
    } else if (code === 1) {
      bold = true;
    } else if (code === 22) {
      bold = false;
    } else if (code === 38 || code === 48) {
      const indexed = numbers[at + 1] === 5;
      if (code === 38 && indexed && numbers[at + 2] < 16) {
        colour = `c${numbers[at + 2] % 8}`;
      }
      at += indexed ? 2 : 4;
    } else if ((code >= 30 && code <= 37) || (code >= 90 && code <= 97)) {
      colour = `c${code % 10}`;
    } else if (code === 39) {
      colour = '';
    }
  }
  return [colour, bold];
}

/** The line as it reads, without colours. */
export function plain(line: string): string {
  return pieces(line)
    .map(piece => piece.text)
    .join('');
}
